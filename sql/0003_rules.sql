-- The rules of the queue tier, one request at a time: batches fall back on them, and SQL clients call them.
--
-- Every function returns its answers as rows of one type, so that a batch can mix them. Nothing here raises an error for
-- a client's mistake: a refusal is an answer like any other, and the rest of the batch is still applied.
--
-- Locks are always taken in this order, so there is no deadlock:
--   1. names of accounts and queues that are about to be created, sorted;
--   2. the advisory lock for appending, shared;
--   3. rows of queues, by name;
--   4. rows of messages, which are skipped when they are locked.
--
-- A function that reads messages is VOLATILE: a stable function uses the snapshot of its caller, which may be older
-- than a lock that it waits for. With it a part of the ring that was truncated meanwhile looks empty, since TRUNCATE
-- keeps no old versions, nor are those visible that were moved aside before. Only these may be STABLE: functions in SQL
-- that are inlined into their caller's statement, as lanes are, and queues_since, whose caller's statement locks all
-- parts of the table before it takes its snapshot. For the same reason batches, requests that are sent alone and upkeep
-- refuse any isolation level but READ COMMITTED; those of experiments (0009 to 0014) do not.

SET LOCAL search_path = posthaste;

CREATE TYPE answer AS (
    -- The request of the batch that the row answers; null for a row that belongs to none.
    op int,
    -- i: a number, m: a message, e: nothing to read, f: a refusal, q: a queue, a: an account,
    -- n: the name of a queue that other rows of this call have the id of only,
    -- l: the floor of a lane, v: a message became available, g: a queue was deleted,
    -- t: the time up to which a tick is complete, c: how many messages something happened to, z: how long the statement took;
    -- explained at figures: r: readable queues, s: ids given to the SENDs of a step, d: which request gets which message.
    kind "char",
    -- By kind: the number, the id of a message or account, a floor, a time, nanoseconds, or the limit that was reached.
    number bigint,
    queue_id bigint,
    sender_id int,
    recipient_id int,
    sent_ms bigint,
    deliveries int,
    place bigint,
    receipt bigint,
    due_ms bigint,
    -- Name of a queue or account.
    name text,
    -- For a dead letter: the queue it was sent to. For a queue: its dead-letter queue.
    origin text,
    -- Why a message became a dead letter; which refusal it is; i: 'repeated' if a SEND sent nothing, since its key was known.
    -- c: what happened: 'returned' and 'dead_lettered' to messages whose lease ended without an ACK, 'expired'.
    reason text,
    headers bytea,
    body bytea,
    -- q: what describe_queue lists. m: for a message that is given again, whether an array was asked for.
    -- r: the queues' ids; a row without a request, but with the same number, has those with messages for anyone. No number:
    -- these are listed as well.
    -- s: the message id of each SEND (null: no such queue), then the queue of each. d: places, then the request of each.
    figures bigint[]
);

CREATE FUNCTION place_of(priority int, id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ((255 - priority)::bigint << 54) | id
$$;
COMMENT ON FUNCTION place_of(int, bigint) IS 'Reading order: higher priority first, then lower id.';

CREATE FUNCTION id_at(place bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT place & ((1::bigint << 54) - 1)
$$;
COMMENT ON FUNCTION id_at(bigint) IS 'The id of the message at a place.';

CREATE FUNCTION remembered_ms() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 600000::bigint $$;
COMMENT ON FUNCTION remembered_ms() IS 'How many milliseconds a DEDUP or REQID key is remembered after its first use.';

CREATE FUNCTION answer_bytes_max() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 8388608::bigint $$;
COMMENT ON FUNCTION answer_bytes_max() IS
'The most bytes of bodies and headers in an answer of several messages: it ends before the message that would exceed this. The first message is always included.';

CREATE FUNCTION are_too_many(copies int, content bytea, content_headers bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT copies > 1 AND copies * (octet_length(content)::bigint + coalesce(octet_length(content_headers), 0) + 96) > 67108864
$$;
COMMENT ON FUNCTION are_too_many(int, bytea, bytea) IS
'Whether so many copies of a message exceed the 64 MiB that one SEND may write, counting 96 bytes of each row beside headers and body. There is a limit since all users of the queue wait meanwhile.';

CREATE FUNCTION numbered(op int, number bigint) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'i', number, null, null, null, null, null, null, null, null, null, null, null, null, null, null)::answer
$$;
COMMENT ON FUNCTION numbered(int, bigint) IS 'An answer that is a number.';

CREATE FUNCTION repeated(op int, number bigint) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'i', number, null, null, null, null, null, null, null, null, null, null, 'repeated', null, null, null)::answer
$$;
COMMENT ON FUNCTION repeated(int, bigint) IS 'The answer to a SEND that sends nothing, because its key was that of an earlier one.';

CREATE FUNCTION counted(what text, messages bigint) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(null, 'c', messages, null, null, null, null, null, null, null, null, null, null, what, null, null, null)::answer
$$;
COMMENT ON FUNCTION counted(text, bigint) IS 'Tells the caller to count that this happened to so many messages.';

CREATE FUNCTION refused(op int, reason text, number bigint DEFAULT null) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'f', number, null, null, null, null, null, null, null, null, null, null, reason, null, null, null)::answer
$$;
COMMENT ON FUNCTION refused(int, text, bigint) IS
'The answer to a request that the rules refuse: the reason, and the limit that was reached, if any.';

CREATE FUNCTION nothing(op int, queue bigint, sender int) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'e', null, queue, sender, null, null, null, null, null, null, null, null, null, null, null, null)::answer
$$;
COMMENT ON FUNCTION nothing(int, bigint, int) IS
'The answer to a read that found nothing, with the queue and the sender that it named; null for one that it did not name.';

CREATE FUNCTION available(queue bigint, sender int, recipient int) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(null, 'v', null, queue, sender, recipient, null, null, null, null, null, null, null, null, null, null, null)::answer
$$;
COMMENT ON FUNCTION available(bigint, int, int) IS
'Tells waiting POPs that a queue has a message from this sender to this recipient (0: anyone).';

CREATE FUNCTION gone(queue bigint) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(null, 'g', null, queue, null, null, null, null, null, null, null, null, null, null, null, null, null)::answer
$$;
COMMENT ON FUNCTION gone(bigint) IS 'Tells waiting POPs that a queue was deleted.';

CREATE FUNCTION shown(op int, m message, queue_name text) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'm', m.id, m.queue_id, m.sender_id, m.recipient_id, m.sent_ms, m.deliveries, m.place,
        CASE WHEN m.holder_id IS NOT NULL THEN m.receipt END, m.due_ms, queue_name, m.first_queue, m.reason,
        m.headers, m.body, null)::answer
$$;
COMMENT ON FUNCTION shown(int, message, text) IS 'A message as an answer, with its receipt while it is leased.';

CREATE FUNCTION is_read_committed() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
$$;
COMMENT ON FUNCTION is_read_committed() IS
'Whether each statement of the transaction has a snapshot of its own. PostgreSQL executes READ UNCOMMITTED as READ COMMITTED. Inlined.';

CREATE FUNCTION refuse_isolation() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_state', MESSAGE = format(
        'transactions are %s here, and must be read committed: ALTER ROLE %I SET default_transaction_isolation = ''read committed''',
        current_setting('transaction_isolation'), current_user);
END $$;
COMMENT ON FUNCTION refuse_isolation() IS
'Fails, for a call whose transaction uses one snapshot for all of its statements: it would not see what was committed while it waited for a lock.';

-- Accounts ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION meet(account_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE number int;
BEGIN
    LOOP
        SELECT id INTO number FROM account WHERE name = account_name COLLATE "C";
        EXIT WHEN number IS NOT NULL;
        INSERT INTO account VALUES (nextval('account_id'), account_name, false) ON CONFLICT (name) DO NOTHING
            RETURNING id INTO number;
        EXIT WHEN number IS NOT NULL;
    END LOOP;
    RETURN number;
END $$;
COMMENT ON FUNCTION meet(text) IS 'The number of the account of this name, created if the name is new. Plan: account_name_key.';

CREATE FUNCTION log_in(account_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE number int := meet(account_name);
BEGIN
    UPDATE account SET known = true WHERE id = number AND NOT known;
    RETURN number;
END $$;
COMMENT ON FUNCTION log_in(text) IS 'The number of the account of this name, created if the name is new, and from now on known. Plan: account_name_key, account_pkey.';

CREATE FUNCTION recipient_named(number int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found_name text;
BEGIN
    IF number <> 0 THEN
        SELECT name INTO found_name FROM account WHERE id = number;
        IF found_name IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'PHNUM', MESSAGE = format(
                'no account has the number %s', number);
        END IF;
    END IF;
    RETURN found_name;
END $$;
COMMENT ON FUNCTION recipient_named(int) IS
'The name of a recipient whose number a middleware remembers; null for 0, anyone. Fails if no account has the number, so that a message for one account is not delivered to anyone. Plan: account_pkey.';

-- Queues -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION refuse_locked(queue_name text, others text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'PHLCK', MESSAGE = format('another transaction holds a lock on queue %L', queue_name),
        DETAIL = array_to_string(queue_name || array_remove(others, queue_name), E'\n');
END $$;
COMMENT ON FUNCTION refuse_locked(text, text[]) IS
'Fails with PHLCK; DETAIL has the names of the queue and of the others that are locked too, one in each line.';

CREATE FUNCTION try_lock_name(queue text) RETURNS boolean LANGUAGE sql AS $$
    SELECT pg_try_advisory_xact_lock(hashtext('posthaste.queue'), hashtext(queue COLLATE "C"))
$$;
COMMENT ON FUNCTION try_lock_name(text) IS 'Tries to take the lock of a queue''s name, which a transaction that creates the queue holds, so that no other waits in the index; returns whether it has the lock.';

CREATE FUNCTION lock_name(queue text, wanted text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE patience text := current_setting('lock_timeout');
BEGIN
    IF NOT try_lock_name(queue) THEN
        BEGIN
            PERFORM set_config('lock_timeout', '1s', true);
            PERFORM pg_advisory_xact_lock(hashtext('posthaste.queue'), hashtext(queue));
            PERFORM set_config('lock_timeout', patience, true);
        EXCEPTION WHEN lock_not_available THEN
            PERFORM refuse_locked(queue, ARRAY(SELECT name FROM unnest(wanted) AS w(name) WHERE NOT try_lock_name(name)));
        END;
    END IF;
END $$;
COMMENT ON FUNCTION lock_name(text, text[]) IS
'Takes the lock of a queue''s name. Waits at most 1 s, which is longer than a batch takes and shorter than an application''s transaction may take; then fails as refuse_locked, with those of the other wanted names that are locked too. Plan: no table.';

CREATE FUNCTION queue_named(queue_name text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT id FROM queue WHERE name = queue_name);
END $$;
COMMENT ON FUNCTION queue_named(text) IS 'The id of the queue of this name; null if there is none. Plan: queue_name_key.';

CREATE FUNCTION queue_awaited(queue_name text, awaited bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT id FROM queue WHERE name = queue_name AND id = coalesce(awaited, id));
END $$;
COMMENT ON FUNCTION queue_awaited(text, bigint) IS
'The id of the queue of this name, for a POP that may have waited for one (awaited): null if that has been deleted, even if another queue has the name now. Plan: queue_name_key.';

CREATE FUNCTION locked_queues(queue_names text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    queue_name text;
    locked text[];
BEGIN
    -- Other batches lock a row one after the other, each for a moment only.
    FOR look IN 1..5 LOOP
        locked := '{}';
        FOREACH queue_name IN ARRAY queue_names LOOP
            PERFORM FROM queue WHERE name = queue_name FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND AND queue_named(queue_name) IS NOT NULL THEN
                locked := locked || queue_name;
            END IF;
        END LOOP;
        EXIT WHEN locked = '{}';
        queue_names := locked;
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN locked;
END $$;
COMMENT ON FUNCTION locked_queues(text[]) IS
'Those of these queues whose rows other transactions keep locked, for about 50 ms. Locks the rows of the rest. Plan: queue_name_key.';

CREATE FUNCTION wait_for_queue(queue_name text, wanted text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE patience text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    PERFORM FROM queue WHERE name = queue_name FOR NO KEY UPDATE;
    PERFORM set_config('lock_timeout', patience, true);
EXCEPTION WHEN lock_not_available THEN
    PERFORM refuse_locked(queue_name, locked_queues(wanted));
END $$;
COMMENT ON FUNCTION wait_for_queue(text, text[]) IS
'Waits for the locked row of a queue and locks it. Waits at most 1 s, which is longer than a batch takes and shorter than an application''s transaction may take; then fails as refuse_locked, with those of the other wanted queues that are locked too, so that the caller need not wait for each of them. Plan: queue_name_key.';

CREATE FUNCTION queue_names(numbers bigint[]) RETURNS SETOF answer LANGUAGE sql STABLE AS $$
    SELECT null::int, 'n'::"char", null::bigint, id, null::int, null::int, null::bigint, null::int, null::bigint, null::bigint,
        null::bigint, name, null::text, null::text, null::bytea, null::bytea, null::bigint[]
    FROM queue WHERE id = ANY(numbers)
$$;
COMMENT ON FUNCTION queue_names(bigint[]) IS 'The names of the queues with these ids. Inlined. Plan: queue_pkey.';

CREATE FUNCTION add_queue(queue text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE number bigint;
BEGIN
    IF queue IS NULL THEN
        LOOP
            number := nextval('queue_id');
            queue := number::text;
            CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtext('posthaste.queue'), hashtext(queue));
            EXIT WHEN NOT EXISTS (SELECT FROM posthaste.queue q WHERE q.name = add_queue.queue COLLATE "C");
        END LOOP;
        INSERT INTO posthaste.queue (id, name) VALUES (number, queue);
        RETURN number;
    END IF;
    SELECT id INTO number FROM posthaste.queue q WHERE q.name = add_queue.queue COLLATE "C";
    IF number IS NULL THEN
        -- No other transaction creates it now. One with a snapshot from before the queue was created fails with 40001 here.
        INSERT INTO posthaste.queue AS q (id, name) VALUES (nextval('queue_id'), queue)
            ON CONFLICT ON CONSTRAINT queue_name_key DO NOTHING RETURNING q.id INTO number;
    END IF;
    RETURN number;
END $$;
COMMENT ON FUNCTION add_queue(text) IS
'The id of the queue of this name, created if the name is new; null creates a queue named by its id. The caller holds the lock of the name. Plan: queue_name_key.';

CREATE FUNCTION stock(queue bigint, OUT messages bigint, OUT bytes bigint, OUT leased bigint, OUT delayed bigint,
    OUT oldest_ms bigint) LANGUAGE sql AS $$
    SELECT count(*), coalesce(sum(octet_length(body)), 0)::bigint, count(holder_id), count(due_ms) - count(holder_id),
        (min(ARRAY[id, sent_ms]))[2]
    FROM stored(queue)
$$;
COMMENT ON FUNCTION stock(bigint) IS
'What a queue holds: counts, bytes of bodies, and when its oldest message was sent. Reads all messages of the queue, so it is for QINFO and queues with limits only. Plan: message_by_both, message_aside_by_queue_due.';

CREATE FUNCTION describe_queue(op int, at_ms bigint, q queue) RETURNS answer LANGUAGE sql AS $$
    SELECT ROW(op, 'q', q.id, null, null, null, null, null, null, null, null, q.name, q.dead_letter, null, null, null,
        ARRAY[s.messages, s.bytes, CASE WHEN s.oldest_ms IS NULL THEN 0 ELSE greatest(at_ms - s.oldest_ms, 0) END,
            s.leased, s.delayed, q.messages_max, q.bytes_max, q.ttl_ms, q.dead_after, q.forbid_self::int, q.only_known::int])::answer
    FROM stock(q.id) AS s
$$;
COMMENT ON FUNCTION describe_queue(int, bigint, queue) IS
'A queue as QINFO describes it: what it holds, its limits and its rules. Plan: as stock.';

-- Reading ----------------------------------------------------------------------------------------------------------

-- Lists a page of queues: a list of all of them in one call would hold the locks of its batch for long. One statement
-- counts them all, so an empty queue costs one seek in each part of the table. The counts are in a subquery of their own,
-- since as a join the planner may read the parts from end to end.
CREATE FUNCTION list_queues(op int, at_ms bigint, after bigint, want bigint) RETURNS SETOF answer
LANGUAGE sql STABLE AS $$
    SELECT list_queues.op, 'q'::"char", page.id, null::bigint, null::int, null::int, null::bigint, null::int, null::bigint,
        null::bigint, null::bigint, page.name, null::text, null::text, null::bytea, null::bytea,
        ARRAY[s.messages, s.bytes, CASE WHEN s.oldest_ms IS NULL THEN 0 ELSE greatest(at_ms - s.oldest_ms, 0) END]
    FROM (SELECT q.id, q.name FROM queue q WHERE q.id > after ORDER BY q.id LIMIT want) AS page,
        LATERAL (
            SELECT count(*) AS messages, coalesce(sum(octet_length(body)), 0)::bigint AS bytes,
                (min(ARRAY[stored.id, sent_ms]))[2] AS oldest_ms
            FROM stored(page.id)
        ) AS s
    ORDER BY page.id
$$;
COMMENT ON FUNCTION list_queues(int, bigint, bigint, bigint) IS
'The first queues with ids above `after`, at most `want`, by id, with what they hold. Reads all of their messages. Plan: queue_pkey; for each queue message_by_both and message_aside_by_queue_due.';

CREATE TYPE head AS (
    place bigint,
    part smallint,
    tid tid,
    home bigint,
    sender int,
    bytes bigint,
    for_anyone boolean
);
COMMENT ON TYPE head IS 'One of the first messages that a reader may get: a row of a lane, and whether it is the lane of messages for anyone.';

CREATE FUNCTION heads(at_ms bigint, reader int, queue bigint, sender int, not_own boolean, broadcast boolean, want bigint)
RETURNS SETOF head LANGUAGE plpgsql AS $$
DECLARE
    own int := CASE WHEN NOT broadcast THEN reader END;
    from_place bigint := noted_floor();
    near constant bigint := 20 + want;
    seen bigint;
    of_others head[];
BEGIN
    IF not_own AND sender = reader THEN
        RETURN;
    ELSIF queue IS NULL THEN
        RETURN QUERY SELECT * FROM (
            SELECT *, true FROM sender_lane(at_ms, 0, sender, from_place, want)
            UNION ALL SELECT *, false FROM sender_lane(at_ms, own, sender, from_place, want)) AS l ORDER BY l.place LIMIT want;
    ELSIF sender IS NOT NULL THEN
        RETURN QUERY SELECT * FROM (
            SELECT *, true FROM both_lane(at_ms, 0, queue, sender, from_place, want)
            UNION ALL SELECT *, false FROM both_lane(at_ms, own, queue, sender, from_place, want)) AS l ORDER BY l.place LIMIT want;
    ELSIF not_own THEN
        -- The first messages are seldom all from the reader, and senders may be many: so the beginning is filtered first.
        SELECT count(*), array_agg(l::head ORDER BY l.place) FILTER (WHERE l.sender_id <> reader) INTO seen, of_others FROM (
            SELECT * FROM (
                SELECT *, true FROM queue_lane(at_ms, 0, queue, from_place, near)
                UNION ALL SELECT *, false FROM queue_lane(at_ms, own, queue, from_place, near)) AS l ORDER BY l.place LIMIT near) AS l;
        IF seen < near OR cardinality(of_others) >= want THEN
            RETURN QUERY SELECT * FROM unnest(of_others) LIMIT want;
            RETURN;
        END IF;
        RETURN QUERY WITH RECURSIVE hop(sender) AS (
            SELECT least(
                (SELECT sender_id FROM message WHERE ring IN (0, 1) AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
                        AND message.place >= from_place
                    ORDER BY queue_id, sender_id LIMIT 1),
                (SELECT sender_id FROM message WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
                    ORDER BY queue_id, sender_id LIMIT 1))
            UNION ALL
            SELECT least(
                (SELECT sender_id FROM message
                    WHERE ring IN (0, 1) AND (queue_id, sender_id) > (queue, hop.sender) AND queue_id <= queue AND due_ms IS NULL
                        AND message.place >= from_place
                    ORDER BY queue_id, sender_id LIMIT 1),
                (SELECT sender_id FROM message
                    WHERE ring = 2 AND (queue_id, sender_id) > (queue, hop.sender) AND queue_id <= queue AND due_ms IS NULL
                    ORDER BY queue_id, sender_id LIMIT 1)) FROM hop WHERE hop.sender IS NOT NULL
        )
        SELECT l.*
        FROM hop, LATERAL (
            SELECT *, true FROM both_lane(at_ms, 0, queue, hop.sender, from_place, want)
            UNION ALL SELECT *, false FROM both_lane(at_ms, own, queue, hop.sender, from_place, want)) AS l
        WHERE hop.sender <> reader ORDER BY l.place LIMIT want;
    ELSE
        RETURN QUERY SELECT * FROM (
            SELECT *, true FROM queue_lane(at_ms, 0, queue, from_place, want)
            UNION ALL SELECT *, false FROM queue_lane(at_ms, own, queue, from_place, want)) AS l ORDER BY l.place LIMIT want;
    END IF;
END $$;
COMMENT ON FUNCTION heads(bigint, int, bigint, int, boolean, boolean, bigint) IS
'Where the first messages are that a reader may get. Reads two lanes (for anyone, for the reader); if NOTOWN does not find enough at their beginning, two lanes for each other sender of the queue. Plan: as noted_floor; the lanes''; the senders one seek each in message_by_both, in each part.';

CREATE FUNCTION row_at(part smallint, tid tid, place bigint) RETURNS message LANGUAGE plpgsql AS $$
DECLARE m message;
BEGIN
    CASE part
    WHEN 0 THEN SELECT * INTO m FROM message_0 WHERE ctid = row_at.tid;
    WHEN 1 THEN SELECT * INTO m FROM message_1 WHERE ctid = row_at.tid;
    -- A removed row may have been vacuumed here, and another message may have its ctid.
    WHEN 2 THEN SELECT * INTO m FROM message_aside WHERE ctid = row_at.tid AND message_aside.place = row_at.place;
    END CASE;
    RETURN m;
END $$;
COMMENT ON FUNCTION row_at(smallint, tid, bigint) IS
'The message in a row that this transaction has found; null if another transaction has taken it since. Plan: Tid Scan of one part.';

CREATE FUNCTION peek_one(op int, at_ms bigint, reader int, queue bigint, sender int, not_own boolean, broadcast boolean,
    want bigint) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    head record;
    m message;
    home bigint;
    name text;
    bytes bigint := 0;
    given bigint := 0;
    is_empty boolean;
BEGIN
    LOOP
        is_empty := true;
        FOR head IN SELECT h.* FROM heads(at_ms, reader, queue, sender, not_own, broadcast, want) h ORDER BY h.place LOOP
            is_empty := false;
            EXIT WHEN given > 0 AND bytes + head.bytes > answer_bytes_max();
            m := row_at(head.part, head.tid, head.place);
            CONTINUE WHEN m.id IS NULL;
            IF m.queue_id IS DISTINCT FROM home THEN
                home := m.queue_id;
                SELECT q.name INTO name FROM posthaste.queue q WHERE q.id = home;
            END IF;
            -- The message was read, but has been deleted with its queue since.
            CONTINUE WHEN name IS NULL;
            bytes := bytes + head.bytes;
            given := given + 1;
            RETURN NEXT shown(op, m, name);
        END LOOP;
        -- All that were found have been taken since, but there may be messages behind them.
        EXIT WHEN given > 0 OR is_empty;
    END LOOP;
    IF given = 0 THEN
        RETURN NEXT nothing(op, queue, sender);
    END IF;
END $$;
COMMENT ON FUNCTION peek_one(int, bigint, int, bigint, int, boolean, boolean, bigint) IS
'PEEK: the first messages that a reader may get, as many as are wanted and fit into an answer. Locks nothing. Plan: as heads; as row_at for each message; queue_pkey for each queue.';

CREATE FUNCTION take(at_ms bigint, reader int, head_part smallint, head_tid tid, lease_ms bigint) RETURNS message
LANGUAGE plpgsql AS $$
DECLARE
    locked record;
    m message;
BEGIN
    SELECT message AS m, ctid AS tid INTO locked FROM message
        WHERE ring = head_part AND ctid = head_tid AND due_ms IS NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN null;
    END IF;
    m := locked.m;
    m.deliveries := m.deliveries + 1;
    IF lease_ms IS NULL THEN
        DELETE FROM message WHERE ring = head_part AND ctid = locked.tid;
        RETURN m;
    END IF;
    m.due_ms := after(at_ms, lease_ms);
    m.holder_id := reader;
    m.receipt := new_receipt();
    IF m.ring = 2 THEN
        UPDATE message SET deliveries = m.deliveries, due_ms = m.due_ms, holder_id = m.holder_id, receipt = m.receipt
            WHERE ring = 2 AND ctid = locked.tid;
    ELSE
        DELETE FROM message WHERE ring = head_part AND ctid = locked.tid;
        m.ring := 2;
        INSERT INTO message SELECT (m).*;
    END IF;
    RETURN m;
END $$;
COMMENT ON FUNCTION take(bigint, int, smallint, tid, bigint) IS
'Takes a message for a reader, for good or until the lease ends; null if another transaction has taken or locked it. The caller has to note the departure. Plan: Tid Scan of one part.';

CREATE FUNCTION new_receipt() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT ('x' || left(replace(gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint
$$;
COMMENT ON FUNCTION new_receipt() IS 'A number that cannot be guessed: the first 64 bits of a version 4 UUID, 60 of them random.';

CREATE FUNCTION pop_one(op int, at_ms bigint, reader int, queue bigint, sender int, not_own boolean, broadcast boolean,
    want bigint, lease_ms bigint, request_key bytea DEFAULT null, counted boolean DEFAULT false, beside boolean DEFAULT false)
RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    head record;
    m message;
    given message[] := '{}';
    names text[] := '{}';
    name text;
    bytes bigint := 0;
    wanted bigint;
    seen bigint := 0;
    enough boolean := false;
    was_counted boolean;
    again answer;
    is_ours boolean := true;
    -- The places up to which everything was locked or taken, in the lane for anyone and in that for this reader. The former
    -- is left for later POPs of the transaction with the same queue and sender, if the caller has set posthaste.passed,
    -- whose fields are: queue, sender, place.
    note text[] := string_to_array(nullif(current_setting('posthaste.passed', true), ''), ' ');
    place_here constant text[] := ARRAY[coalesce(queue, 0)::text, coalesce(sender, -1)::text];
    passed_any bigint := CASE WHEN note[1:2] = place_here THEN note[3]::bigint ELSE -1 END;
    passed_own bigint := -1;
    -- Whether something was passed over, and whether it may soon be available again, given back by a move or a QPURGE.
    -- That cannot happen while this transaction has the lock of the queue's row.
    is_passed boolean := false;
    meets_moves constant boolean := beside OR queue IS NULL;
    moves bigint := CASE WHEN meets_moves THEN moves_begun() END;
    may_be_back boolean := meets_moves AND is_moving();
BEGIN
    IF request_key IS NOT NULL THEN
        -- A POP from a queue holds the lock of its row; one without a queue holds none, so it takes a lock for the key.
        -- Without a lock, the reply that a concurrent POP with the same key has just remembered might not be visible.
        -- It is tried for a while and not waited for, since a batch may hold locks that the other transaction needs.
        WHILE queue IS NULL LOOP
            is_ours := pg_try_advisory_xact_lock(hashtextextended(encode(request_key, 'hex'), reader));
            EXIT WHEN is_ours OR NOT may_await_moves();
            PERFORM pg_sleep(0.002);
        END LOOP;
        SELECT r.messages, r.queue_names, r.counted INTO given, names, was_counted FROM remembered_pop r
            WHERE r.account_id = reader AND r.queue_id = coalesce(queue, 0) AND r.key = request_key AND r.ends_ms > at_ms;
        IF FOUND THEN
            FOR i IN 1..cardinality(given) LOOP
                again := shown(op, given[i], names[i]);
                again.figures := ARRAY[was_counted::int];
                RETURN NEXT again;
            END LOOP;
            RETURN;
        END IF;
        given := '{}';
        names := '{}';
        IF NOT is_ours THEN
            RETURN NEXT refused(op, 'under_way');
            RETURN;
        END IF;
    END IF;
    -- Locked messages are passed over. Then more are read, each time twice as many: a transaction that has taken thousands
    -- must not make others start over for each of these.
    LOOP
        wanted := want - cardinality(given) + 2 * seen;
        seen := 0;
        FOR head IN SELECT h.* FROM heads(at_ms, reader, queue, sender, not_own, broadcast, wanted) h ORDER BY h.place
        LOOP
            seen := seen + 1;
            is_passed := true;
            CONTINUE WHEN head.place <= CASE WHEN head.for_anyone THEN passed_any ELSE passed_own END;
            enough := cardinality(given) = want OR cardinality(given) > 0 AND bytes + head.bytes > answer_bytes_max();
            EXIT WHEN enough;
            IF head.for_anyone THEN
                passed_any := head.place;
            ELSE
                passed_own := head.place;
            END IF;
            m := take(at_ms, reader, head.part, head.tid, lease_ms);
            CONTINUE WHEN m.id IS NULL;
            SELECT q.name INTO name FROM posthaste.queue q WHERE q.id = m.queue_id;
            bytes := bytes + head.bytes;
            given := given || m;
            names := names || name;
            RETURN NEXT shown(op, m, name);
        END LOOP;
        EXIT WHEN enough OR cardinality(given) = want;
        IF seen < wanted THEN
            -- Look again while another transaction moves messages, or has just ended a move; not for long, though.
            EXIT WHEN cardinality(given) > 0 OR NOT is_passed OR NOT meets_moves OR NOT may_be_back AND moves_begun() = moves;
            EXIT WHEN NOT may_await_moves();
            PERFORM pg_sleep(0.002);
            moves := moves_begun();
            may_be_back := is_moving();
            is_passed := false;
            passed_any := -1;
            passed_own := -1;
            seen := 0;
        END IF;
    END LOOP;
    IF lease_ms IS NULL AND cardinality(given) > 0 AND leaving_is_noted() THEN
        PERFORM note_arrival(g.queue_id, -count(*), -sum(octet_length(g.body))) FROM unnest(given) AS g GROUP BY g.queue_id;
    END IF;
    IF note IS NOT NULL AND NOT not_own THEN
        PERFORM set_config('posthaste.passed', concat_ws(' ', place_here[1], place_here[2], passed_any), true);
    END IF;
    IF cardinality(given) = 0 THEN
        RETURN NEXT nothing(op, queue, sender);
    ELSIF request_key IS NOT NULL THEN
        -- A row of the same key that has ended may not have been removed yet.
        INSERT INTO remembered_pop AS r
            VALUES (reader, coalesce(queue, 0), request_key, at_ms + remembered_ms(), given, names, pop_one.counted)
            ON CONFLICT (account_id, queue_id, key) DO UPDATE SET ends_ms = excluded.ends_ms, messages = excluded.messages,
                queue_names = excluded.queue_names, counted = excluded.counted;
    END IF;
END $$;
COMMENT ON FUNCTION pop_one(int, bigint, int, bigint, int, boolean, boolean, bigint, bigint, bytea, boolean, boolean) IS
'POP: gives each message to exactly one reader, since it locks the message first and then removes or leases it. `beside`: the caller does not hold the lock of the queue''s row. Plan: as heads; one Tid Scan for each message; as note_arrival.';
