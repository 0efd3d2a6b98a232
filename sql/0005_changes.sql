-- The rules that change queues and messages, one request at a time; 0003 has the rest of the rules.

SET LOCAL search_path = posthaste;

-- Moving -------------------------------------------------------------------------------------------------------------

-- A transaction that moves messages, or removes them and may have to give them back, locks their rows, as a POP does. A
-- POP by SQL, or one that names no queue, passes over locked rows and so might miss messages that are only being moved.
-- So such a transaction holds a shared advisory lock until its end, and a sequence tells how many have begun.
CREATE SEQUENCE moves;

CREATE FUNCTION begin_move() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('posthaste.moves'), 0);
    PERFORM nextval('posthaste.moves');
END $$;
COMMENT ON FUNCTION begin_move() IS
'Announces that this transaction is going to lock messages that stay ready, or may be given back. Not for transactions of applications, which may last long. Plan: no table.';

CREATE FUNCTION moves_begun() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(pg_sequence_last_value('posthaste.moves'), 0)
$$;
COMMENT ON FUNCTION moves_begun() IS 'How many moves have begun so far. To be read before is_moving, so that none is missed.';

CREATE FUNCTION is_moving() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    -- Takes the lock exclusively, which fails while another session shares it, and releases it at once: in one expression,
    -- so that no error in between leaves the lock to the session. The locks of this session do not conflict.
    RETURN NOT pg_try_advisory_lock(hashtext('posthaste.moves'), 0) OR NOT pg_advisory_unlock(hashtext('posthaste.moves'), 0);
END $$;
COMMENT ON FUNCTION is_moving() IS 'Whether another transaction is moving messages. Does not wait. Plan: no table.';

CREATE FUNCTION may_await_moves() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE until_ms bigint := nullif(current_setting('posthaste.moves_awaited_until', true), '')::bigint;
BEGIN
    IF until_ms IS NULL THEN
        until_ms := now_ms() + 500;
        PERFORM set_config('posthaste.moves_awaited_until', until_ms::text, true);
    END IF;
    -- The clock may have been set back.
    RETURN until_ms - now_ms() BETWEEN 0 AND 500;
END $$;
COMMENT ON FUNCTION may_await_moves() IS
'Whether a POP may still wait for messages that are being moved, or for another one with its REQID: until half a second after the first POP of the transaction asked. The POPs of a batch share that time, since other batches wait for it. Plan: no table.';

-- Sending ----------------------------------------------------------------------------------------------------------

CREATE FUNCTION put(at_ms bigint, part smallint, sender int, recipient int, q queue, content bytea, content_headers bytea,
    delay_ms bigint, ttl_ms bigint, priority int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint := nextval('message_id');
    expires bigint := at_ms + coalesce(ttl_ms, q.ttl_ms);
BEGIN
    INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, sent_ms, expires_ms, headers, body)
    VALUES (CASE WHEN delay_ms = 0 AND priority = 0 THEN part ELSE 2 END, number, place_of(priority, number), q.id, sender,
        recipient, CASE WHEN delay_ms > 0 THEN least(after(at_ms, delay_ms), expires) END, at_ms, expires, content_headers, content);
    RETURN number;
END $$;
COMMENT ON FUNCTION put(bigint, smallint, int, int, queue, bytea, bytea, bigint, bigint, int) IS
'Stores one message and returns its id. A message with a delay or a priority is kept aside, any other in the given part. Plan: one INSERT.';

CREATE FUNCTION refusal(op int, q queue, sender int, recipient text, messages bigint, bytes bigint) RETURNS answer
LANGUAGE plpgsql AS $$
BEGIN
    IF recipient <> '*' AND q.forbid_self AND recipient = (SELECT name FROM account WHERE id = sender) THEN
        RETURN refused(op, 'forbidden_self');
    ELSIF recipient <> '*' AND q.only_known AND NOT EXISTS (SELECT FROM account WHERE name = recipient AND known) THEN
        RETURN refused(op, 'no_account');
    ELSIF q.messages_max IS NOT NULL OR q.bytes_max IS NOT NULL THEN
        RETURN refused_for_room(op, q, messages, bytes);
    END IF;
    RETURN null;
END $$;
COMMENT ON FUNCTION refusal(int, queue, int, text, bigint, bigint) IS
'Why a message may not be sent: FORBIDSELF, STRICT, MAXMSGS or MAXBYTES; null if it may. Recipient null: anyone, *: everyone. Plan: account_pkey, account_name_key; as refused_for_room.';

CREATE FUNCTION send_one(op int, at_ms bigint, part smallint, sender int, q queue, content bytea, recipient text,
    content_headers bytea, delay_ms bigint, ttl_ms bigint, priority int, request_key bytea) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    refused answer;
    copies int[] := '{0}';
    copy int;
BEGIN
    IF request_key IS NOT NULL THEN
        SELECT r.answer INTO number FROM remembered_send r
            WHERE r.account_id = sender AND r.queue_id = q.id AND r.key = request_key AND r.ends_ms > at_ms;
        IF FOUND THEN
            RETURN NEXT repeated(op, number);
            RETURN;
        END IF;
    END IF;
    IF recipient = '*' THEN
        SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO copies FROM account WHERE known AND id <> sender;
    END IF;
    refused := CASE WHEN are_too_many(cardinality(copies), content, content_headers)
        THEN refused(op, 'full_copies', cardinality(copies))
        ELSE refusal(op, q, sender, recipient, cardinality(copies), cardinality(copies)::bigint * octet_length(content)) END;
    IF refused.kind IS NOT NULL THEN
        RETURN NEXT refused;
        RETURN;
    END IF;
    IF recipient <> '*' THEN
        copies := ARRAY[meet(recipient)];
    END IF;
    FOREACH copy IN ARRAY copies LOOP
        number := put(at_ms, part, sender, copy, q, content, content_headers, delay_ms, ttl_ms, priority);
        IF delay_ms = 0 THEN
            RETURN NEXT available(q.id, sender, copy);
        END IF;
    END LOOP;
    IF recipient = '*' THEN
        number := cardinality(copies);
    END IF;
    IF request_key IS NOT NULL THEN
        INSERT INTO remembered_send VALUES (sender, q.id, request_key, at_ms + remembered_ms(), number)
            ON CONFLICT (account_id, queue_id, key) DO UPDATE SET ends_ms = excluded.ends_ms, answer = excluded.answer;
    END IF;
    RETURN NEXT numbered(op, number);
END $$;
COMMENT ON FUNCTION send_one(int, bigint, smallint, int, queue, bytea, text, bytea, bigint, bigint, int, bytea) IS
'SEND with all of its options. Every refusal is decided before anything is stored. Plan: remembered_send_pkey, account_name_key; reads all accounts for TO *; as refusal; one INSERT for each copy.';

CREATE FUNCTION send_all(op int, at_ms bigint, part smallint, sender int, q queue, contents bytea[]) RETURNS SETOF answer
LANGUAGE plpgsql AS $$
DECLARE
    refused answer := refusal(op, q, sender, null, cardinality(contents),
        (SELECT sum(octet_length(content)) FROM unnest(contents) AS content));
    content bytea;
BEGIN
    IF refused.kind IS NOT NULL THEN
        RETURN NEXT refused;
        RETURN;
    END IF;
    FOREACH content IN ARRAY contents LOOP
        RETURN NEXT numbered(op, put(at_ms, part, sender, 0, q, content, null, 0, null, 0));
        RETURN NEXT available(q.id, sender, 0);
    END LOOP;
END $$;
COMMENT ON FUNCTION send_all(int, bigint, smallint, int, queue, bytea[]) IS 'SENDMANY: stores all of the messages or none. Plan: as refusal; one INSERT for each.';

-- Leases -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION held(at_ms bigint, account int, message_id bigint, receipt_shown bigint) RETURNS message
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE m message;
BEGIN
    -- Waits for the row lock, for the reason that ack_step gives.
    SELECT * INTO m FROM message WHERE ring = 2 AND id = message_id AND coalesce(due_ms, 0) > at_ms AND holder_id IS NOT NULL
        AND CASE WHEN receipt_shown IS NULL THEN holder_id = account ELSE receipt = receipt_shown END
        FOR UPDATE;
    RETURN m;
END $$;
COMMENT ON FUNCTION held(bigint, int, bigint, bigint) IS
'Locks and returns a leased message if the request names its current lease: by the receipt, or without one as the holder; else null. Plan: message_aside_by_id.';

CREATE FUNCTION lock_leases(at_ms bigint, kinds "char"[], named bigint[], acknowledged bigint[]) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
BEGIN
    PERFORM FROM (
        SELECT id FROM unnest(kinds, named) AS u(kind, id) WHERE kind IN ('n', 'x') UNION SELECT id FROM unnest(acknowledged) AS u(id)
        ORDER BY id) AS asked, LATERAL (
            SELECT FROM message WHERE ring = 2 AND message.id = asked.id AND coalesce(due_ms, 0) > at_ms AND holder_id IS NOT NULL
            FOR UPDATE) AS l;
END $$;
COMMENT ON FUNCTION lock_leases(bigint, "char"[], bigint[], bigint[]) IS
'Locks the leases that NACKs, EXTENDs and ACKs name, in the order of ids. Plan: message_aside_by_id.';

CREATE FUNCTION renew_leases(from_ms bigint, to_ms bigint, lent bigint[], kinds "char"[], popped bigint[], extended bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- One time after the other, in the order of the right index: for an empty table another looks as good to the planner.
    UPDATE message_aside SET due_ms = due_ms + to_ms - from_ms WHERE ctid = ANY(ARRAY(
        SELECT l.tid FROM (
                SELECT after(from_ms, u.ms) FROM unnest(lent) AS u(ms) WHERE u.ms IS NOT NULL
                UNION SELECT after(from_ms, u.lease_ms) FROM unnest(kinds, popped) AS u(kind, lease_ms)
                    WHERE u.kind = 'p' AND u.lease_ms IS NOT NULL
                UNION SELECT after(from_ms, u.lease_ms) FROM unnest(kinds, extended) AS u(kind, lease_ms) WHERE u.kind = 'x') AS u(due),
            LATERAL (SELECT ctid AS tid FROM message_aside
                WHERE due_ms IS NOT NULL AND due_ms >= u.due AND due_ms <= u.due AND holder_id IS NOT NULL
                    AND xmin = pg_current_xact_id()::xid
                ORDER BY due_ms) AS l));
END $$;
COMMENT ON FUNCTION renew_leases(bigint, bigint, bigint[], "char"[], bigint[], bigint[]) IS
'Makes the leases that this transaction has given at from_ms count from to_ms. They are found by when they end, since the lease times of the batch''s POPs and EXTENDs are known. Plan: message_aside_by_due.';

CREATE FUNCTION give_back(m message, at_ms bigint, delay_ms bigint, why text, again_ms bigint) RETURNS SETOF answer
LANGUAGE plpgsql AS $$
DECLARE
    home queue;
    grave bigint;
BEGIN
    IF m.expires_ms <= at_ms THEN
        DELETE FROM message WHERE ring = 2 AND id = m.id;
        IF leaving_is_noted() THEN
            PERFORM note_departure(m.queue_id, octet_length(m.body));
        END IF;
        -- In no queue: it was taken by mark-update.
        IF m.queue_id <> 0 THEN
            RETURN NEXT counted('expired', 1);
        END IF;
        RETURN;
    END IF;
    SELECT * INTO home FROM queue WHERE id = m.queue_id;
    IF m.deliveries >= home.dead_after THEN
        SELECT id INTO grave FROM queue WHERE name = home.dead_letter FOR KEY SHARE SKIP LOCKED;
    END IF;
    IF grave IS NULL AND m.deliveries >= home.dead_after AND queue_named(home.dead_letter) IS NOT NULL THEN
        -- Another transaction, which has not ended, may be deleting it. No account has these numbers, and nobody this receipt.
        UPDATE message SET due_ms = least(again_ms, expires_ms), holder_id = CASE why WHEN 'nack' THEN -1 ELSE 0 END,
            receipt = new_receipt() WHERE ring = 2 AND id = m.id;
    ELSIF grave IS NOT NULL THEN
        UPDATE message SET queue_id = grave, due_ms = null, holder_id = null, receipt = null,
            first_queue = coalesce(first_queue, home.name), reason = why WHERE ring = 2 AND id = m.id;
        PERFORM note_arrival(grave, 1, octet_length(m.body));
        IF leaving_is_noted() THEN
            PERFORM note_departure(m.queue_id, octet_length(m.body));
        END IF;
        -- The room that this transaction remembers does not include this change.
        PERFORM set_config('posthaste.room', '', true);
        RETURN NEXT available(grave, m.sender_id, m.recipient_id);
        RETURN NEXT counted('dead_lettered', 1);
    ELSE
        UPDATE message SET due_ms = CASE WHEN delay_ms > 0 THEN least(after(at_ms, delay_ms), expires_ms) END,
            holder_id = null, receipt = null WHERE ring = 2 AND id = m.id;
        IF delay_ms = 0 THEN
            RETURN NEXT available(m.queue_id, m.sender_id, m.recipient_id);
        END IF;
        RETURN NEXT counted('returned', 1);
    END IF;
END $$;
COMMENT ON FUNCTION give_back(message, bigint, bigint, text, bigint) IS
'Ends a lease without an ACK: the message is removed if its TTL is over, becomes a dead letter if that was its last delivery, or else can be read again, after a delay if one is given. While another transaction may be about to delete the queue for dead letters, the message stays leased to nobody until again_ms, when this is tried again. Plan: queue_pkey, queue_name_key, message_aside_by_id; as note_arrival.';

-- Queues as a whole ------------------------------------------------------------------------------------------------

CREATE FUNCTION patience_left() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    -- Batches end soon; an application's transaction may last. 300 ms is less than deadlock_timeout.
    RETURN greatest(300 - coalesce(nullif(current_setting('posthaste.waited', true), '')::int, 0), 1);
END $$;
COMMENT ON FUNCTION patience_left() IS
'For how many milliseconds QDELETE and QPURGE of this transaction may still wait for other transactions. They share 300 ms, since one batch may delete many queues, and all users of these wait meanwhile. At least 1, since a lock_timeout of 0 means none.';

CREATE FUNCTION note_wait(since timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('posthaste.waited',
        (300 - patience_left() + greatest((extract(epoch FROM clock_timestamp() - since) * 1000)::int, 0))::text, true);
END $$;
COMMENT ON FUNCTION note_wait(timestamptz) IS 'Subtracts the time since then from patience_left.';

CREATE FUNCTION empty_queue(queue bigint, if_large text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint := newest_id();
    waits_since timestamptz;
    patience_ends timestamptz;
    tids tid[];
    ready bigint := 0;
    leased bigint;
BEGIN
    IF if_large = 'refuse' THEN
        PERFORM refuse_if_large(queue);
        -- What is removed is rolled back if the rest cannot be locked in time.
        PERFORM begin_move();
    END IF;
    LOOP
        -- No transaction waits for ready messages, so their rows may stay locked while this one waits for others to end.
        FOR p IN 0..2 LOOP
            tids := ARRAY(SELECT ctid FROM message WHERE ring = p AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
                ORDER BY queue_id, sender_id, recipient_id, place FOR UPDATE SKIP LOCKED);
            ready := ready + remove_rows(p, tids);
        END LOOP;
        BEGIN
            tids := ARRAY(SELECT ctid FROM message
                WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NOT NULL
                ORDER BY queue_id, id FOR UPDATE SKIP LOCKED);
            leased := remove_rows(2, tids);
            IF is_empty(queue, newest) THEN
                IF waits_since IS NOT NULL THEN
                    PERFORM note_wait(waits_since);
                END IF;
                RETURN ready + leased;
            END IF;
            RAISE lock_not_available;
        EXCEPTION WHEN lock_not_available THEN
            -- The exception releases the leased messages until the next attempt: a transaction that waits for one of them,
            -- to ACK it, may hold the lock that is missing here.
            IF waits_since IS NULL THEN
                waits_since := clock_timestamp();
                patience_ends := waits_since + patience_left() * interval '1 ms';
            END IF;
            -- The clock may have been set back.
            IF clock_timestamp() NOT BETWEEN waits_since AND patience_ends THEN
                RETURN null;
            END IF;
            PERFORM pg_sleep(0.002);
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION empty_queue(bigint, text) IS
'Removes every message that was sent to a queue before, and returns how many. With if_large = refuse it fails for a large queue, which is to be swept first. Null if another transaction that takes or gives back one of the messages does not end within patience_left; then the caller has to roll back what was removed. Plan: message_by_both on each part; message_aside_by_queue_due.';

CREATE FUNCTION purge_queue(queue bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
    begun timestamptz := clock_timestamp();
BEGIN
    removed := empty_queue(queue, 'refuse');
    IF removed IS NULL THEN
        RAISE lock_not_available;
    END IF;
    RETURN removed;
EXCEPTION WHEN lock_not_available THEN
    PERFORM note_wait(begun);
    RETURN null;
END $$;
COMMENT ON FUNCTION purge_queue(bigint) IS
'QPURGE: removes the messages of a queue and returns how many. Fails for a large queue; null, with nothing changed, where empty_queue returns null. Plan: as empty_queue.';

CREATE FUNCTION remove_rows(part int, tids tid[]) RETURNS bigint LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE removed bigint;
BEGIN
    IF leaving_is_noted() THEN
        PERFORM note_departures(part, tids);
    END IF;
    DELETE FROM message WHERE ring = part AND ctid = ANY(tids);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
COMMENT ON FUNCTION remove_rows(int, tid[]) IS
'Removes rows that are locked, and returns how many. Plan: Tid Scan, even where a table looks empty when this is planned; as note_departures.';

CREATE FUNCTION is_empty(queue bigint, newest bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE from_place bigint := noted_floor();
BEGIN
    -- Ranges and orders as in `stored`; `id + 0`, so that the planner considers no index on the id.
    RETURN (SELECT queue_id FROM message
            WHERE ring IN (0, 1) AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL AND id + 0 <= newest
                AND place >= from_place
            ORDER BY queue_id, sender_id, recipient_id, place LIMIT 1) IS NULL
        AND (SELECT queue_id FROM message
            WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL AND id + 0 <= newest
            ORDER BY queue_id, sender_id, recipient_id, place LIMIT 1) IS NULL
        AND (SELECT queue_id FROM message
            WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NOT NULL AND id + 0 <= newest
            ORDER BY queue_id, id LIMIT 1) IS NULL;
END $$;
COMMENT ON FUNCTION is_empty(bigint, bigint) IS
'Whether a queue holds no message with an id up to newest. Plan: message_by_both on each part; message_aside_by_queue_due.';

CREATE FUNCTION remove_queue(queue bigint, if_large text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint := 0;
    is_there boolean;
    patience text := current_setting('lock_timeout');
    begun timestamptz;
BEGIN
    PERFORM FROM posthaste.queue q WHERE q.id = remove_queue.queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT is_empty(queue, newest_id()) THEN
        begun := clock_timestamp();
        BEGIN
            PERFORM set_config('lock_timeout', patience_left() || 'ms', true);
            PERFORM FROM posthaste.queue q WHERE q.id = remove_queue.queue FOR UPDATE;
            is_there := FOUND;
            PERFORM note_wait(begun);
            PERFORM set_config('lock_timeout', patience, true);
            IF NOT is_there THEN
                RETURN -1;
            END IF;
            removed := empty_queue(queue, if_large);
            IF removed IS NULL THEN
                RAISE lock_not_available;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM note_wait(begun);
            RETURN null;
        END;
    END IF;
    DELETE FROM posthaste.queue q WHERE q.id = remove_queue.queue;
    RETURN removed;
END $$;
COMMENT ON FUNCTION remove_queue(bigint, text) IS
'QDELETE: removes a queue with its messages, and returns how many these were. If the queue is large: refuse or remove, as if_large says. Null, with nothing changed, if another transaction that sends to the queue or takes from it does not end within patience_left. -1 if another transaction has deleted the queue meanwhile, which cannot happen while the caller holds its row lock. Plan: queue_pkey; as empty_queue.';

CREATE FUNCTION redriven_at_once() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 5000 $$;
COMMENT ON FUNCTION redriven_at_once() IS 'How many dead letters are redriven in one transaction, which takes about a quarter of a second.';

CREATE FUNCTION letters_after(queue bigint, INOUT part int, INOUT sender int, INOUT recipient int, INOUT place bigint,
    OUT letters tid[]) LANGUAGE plpgsql AS $$
DECLARE
    letter record;
    seen int := 0;
BEGIN
    letters := '{}';
    IF part = 2 THEN
        FOR letter IN SELECT ctid AS tid, sender_id, recipient_id, message.place FROM message
            WHERE ring = 2 AND due_ms IS NULL AND queue_id >= queue AND queue_id <= queue
                AND (queue_id, sender_id, recipient_id, message.place) > (queue, sender, recipient, letters_after.place)
                AND first_queue IS NOT NULL
            ORDER BY queue_id, sender_id, recipient_id, message.place LIMIT redriven_at_once() FOR UPDATE SKIP LOCKED
        LOOP
            seen := seen + 1;
            letters[seen] := letter.tid;
            sender := letter.sender_id;
            recipient := letter.recipient_id;
            place := letter.place;
        END LOOP;
    ELSE
        FOR letter IN SELECT ctid AS tid, id FROM message
            WHERE ring = 2 AND due_ms IS NOT NULL AND queue_id >= queue AND queue_id <= queue
                AND (queue_id, id) > (queue, letters_after.place) AND holder_id IS NULL AND first_queue IS NOT NULL
            ORDER BY queue_id, id LIMIT redriven_at_once() FOR UPDATE SKIP LOCKED
        LOOP
            seen := seen + 1;
            letters[seen] := letter.tid;
            place := letter.id;
        END LOOP;
    END IF;
    IF seen < redriven_at_once() THEN
        part := nullif(part, 3) + 1;
        sender := 0;
        recipient := 0;
        place := 0;
    END IF;
END $$;
COMMENT ON FUNCTION letters_after(bigint, int, int, int, bigint) IS
'Locks the next dead letters of a queue that are not leased, at most redriven_at_once, and returns where to continue: part 2 has the ready ones, 3 the delayed ones; null: that was all. To begin: 2, 0, 0, 0. Plan: message_by_both on the aside, or message_aside_by_queue_due.';

CREATE FUNCTION start_anew(letters tid[], to_queue bigint) RETURNS SETOF answer LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    IF leaving_is_noted() THEN
        PERFORM note_departures(2, letters);
    END IF;
    RETURN QUERY UPDATE message SET queue_id = to_queue, deliveries = 0, due_ms = null, first_queue = null, reason = null
        WHERE ring = 2 AND ctid = ANY(letters)
        RETURNING null::int, 'v'::"char", octet_length(body)::bigint, to_queue, sender_id, recipient_id, null::bigint, null::int,
            null::bigint, null::bigint, null::bigint, null::text, null::text, null::text, null::bytea, null::bytea, null::bigint[];
END $$;
COMMENT ON FUNCTION start_anew(tid[], bigint) IS
'Moves dead letters that are locked to a queue, as new messages with no deliveries; returns for each that it became available, with the length of its body. Plan: a Tid Scan; as note_departures.';

CREATE FUNCTION first_queues(letters tid[]) RETURNS TABLE (name text, tids tid[]) LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN QUERY SELECT first_queue, array_agg(ctid) FROM message WHERE ring = 2 AND ctid = ANY(letters) GROUP BY first_queue;
END $$;
COMMENT ON FUNCTION first_queues(tid[]) IS 'The dead letters grouped by the queue that they were first sent to. Plan: a Tid Scan.';

CREATE FUNCTION redrive_letters(letters tid[], to_queue bigint) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    moves record;
    moved bigint := 0;
    news answer[];
BEGIN
    FOR moves IN
        SELECT to_queue AS target, letters AS tids WHERE to_queue IS NOT NULL
        UNION ALL SELECT (SELECT q.id FROM queue q WHERE q.name = f.name FOR KEY SHARE SKIP LOCKED), f.tids
            FROM first_queues(letters) AS f WHERE to_queue IS NULL
    LOOP
        CONTINUE WHEN moves.target IS NULL;
        news := ARRAY(SELECT s FROM start_anew(moves.tids, moves.target) AS s);
        moved := moved + cardinality(news);
        PERFORM note_arrival(moves.target, cardinality(news), (SELECT sum(n.number)::bigint FROM unnest(news) AS n));
        RETURN QUERY SELECT DISTINCT (available(n.queue_id, n.sender_id, n.recipient_id)).* FROM unnest(news) AS n;
    END LOOP;
    PERFORM set_config('posthaste.room', '', true);
    RETURN NEXT numbered(null, moved);
END $$;
COMMENT ON FUNCTION redrive_letters(tid[], bigint) IS
'Redrives dead letters that are locked, to their first queues or, if given, to one queue; returns what became available, and how many were moved. One whose first queue is gone stays. Plan: Tid Scans; queue_name_key for each first queue.';

CREATE FUNCTION redrive(op int, from_queue bigint, to_queue bigint) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    part int;
    letters tid[];
    told answer;
    moved bigint := 0;
BEGIN
    PERFORM begin_move();
    FOR first_part IN 2..3 LOOP
        SELECT l.part, l.letters INTO part, letters FROM letters_after(from_queue, first_part, 0, 0, 0) AS l;
        IF part = first_part THEN
            PERFORM refuse_large(from_queue);
        END IF;
        -- To redrive a letter takes as long as to remove five messages.
        PERFORM count_removal(from_queue, 5 * cardinality(letters));
        FOR told IN SELECT * FROM redrive_letters(letters, to_queue) LOOP
            IF told.kind = 'i' THEN
                moved := moved + told.number;
            ELSE
                RETURN NEXT told;
            END IF;
        END LOOP;
    END LOOP;
    RETURN NEXT numbered(op, moved);
END $$;
COMMENT ON FUNCTION redrive(int, bigint, bigint) IS
'QREDRIVE: moves the dead letters of a queue back to their first queues or to a given one. One that is leased stays, and so does one whose first queue is gone. Fails if there are too many for one transaction. Plan: as letters_after, redrive_letters.';

CREATE FUNCTION browse(op int, queue bigint, after bigint, want bigint) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    listed record;
    m message;
    name text := (SELECT q.name FROM posthaste.queue q WHERE q.id = browse.queue);
    bytes bigint := 0;
    is_first boolean := true;
BEGIN
    FOR listed IN SELECT s.part, s.tid, s.place, content_bytes(s.headers, s.body) AS bytes
        FROM stored(queue) AS s WHERE s.id + 0 > after ORDER BY s.id LIMIT want
    LOOP
        EXIT WHEN NOT is_first AND bytes + listed.bytes > answer_bytes_max();
        m := row_at(listed.part, listed.tid, listed.place);
        CONTINUE WHEN m.id IS NULL;
        is_first := false;
        bytes := bytes + listed.bytes;
        RETURN NEXT shown(op, m, name);
    END LOOP;
END $$;
COMMENT ON FUNCTION browse(int, bigint, bigint, bigint) IS
'QBROWSE, for consoles: messages of a queue above an id, by id. Looks at all messages of the queue, but reads only the bodies that it returns. Plan: queue_pkey; message_by_both, message_aside_by_queue_due; as row_at for each message shown.';

-- Time -------------------------------------------------------------------------------------------------------------

CREATE FUNCTION come_back(those tid[]) RETURNS SETOF answer LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN QUERY WITH back AS (
            UPDATE message SET due_ms = null, holder_id = null, receipt = null WHERE ring = 2 AND ctid = ANY(those)
            RETURNING queue_id, sender_id, recipient_id)
        SELECT (available(lane.queue_id, lane.sender_id, lane.recipient_id)).* FROM (SELECT DISTINCT * FROM back) AS lane;
END $$;
COMMENT ON FUNCTION come_back(tid[]) IS
'Makes leased and delayed messages that are locked ready; returns what became available, once for each lane. Plan: a Tid Scan.';

CREATE FUNCTION tick(at_ms bigint, from_ms bigint, most int) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    due record;
    m message;
    seen int := 0;
    ready tid[] := '{}';
    returned int := 0;
    -- Everything that is due before this time is done, so the next tick may begin here.
    done_ms bigint := at_ms;
    expired tid[];
    removed bigint;
    forgotten bigint;
BEGIN
    -- Nearly all messages that are due just become ready. That is done for all of them together: one by one, thousands that
    -- are due at once would be late.
    FOR due IN SELECT ctid AS tid, id, due_ms, holder_id, deliveries, expires_ms,
            (SELECT q.dead_after FROM queue q WHERE q.id = message.queue_id) AS dead_after
        FROM message WHERE ring = 2 AND due_ms BETWEEN from_ms AND at_ms ORDER BY due_ms LIMIT most FOR UPDATE SKIP LOCKED
    LOOP
        seen := seen + 1;
        IF seen = most THEN
            -- There may be more that are due in the same millisecond.
            done_ms := least(due.due_ms, at_ms - 1);
        END IF;
        IF due.expires_ms <= due.due_ms OR due.holder_id IS NOT NULL AND due.deliveries >= due.dead_after THEN
            SELECT * INTO m FROM message WHERE ring = 2 AND id = due.id;
            RETURN QUERY SELECT * FROM give_back(m, due.due_ms, 0, CASE m.holder_id WHEN -1 THEN 'nack' ELSE 'lease ran out' END,
                at_ms + 1000);
        ELSE
            ready := ready || due.tid;
            returned := returned + (due.holder_id IS NOT NULL)::int;
        END IF;
    END LOOP;
    IF ready <> '{}' THEN
        RETURN QUERY SELECT * FROM come_back(ready);
        RETURN NEXT counted('returned', returned);
    END IF;
    FOR p IN 0..2 LOOP
        expired := ARRAY(SELECT ctid FROM message WHERE ring = p AND expires_ms BETWEEN from_ms AND at_ms AND due_ms IS NULL
            ORDER BY expires_ms LIMIT most FOR UPDATE SKIP LOCKED);
        CONTINUE WHEN expired = '{}';
        removed := remove_rows(p, expired);
        RETURN NEXT counted('expired', removed);
        IF removed = most THEN
            done_ms := from_ms;
        END IF;
    END LOOP;
    DELETE FROM remembered_send WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM remembered_send WHERE ends_ms BETWEEN from_ms AND at_ms ORDER BY ends_ms LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    done_ms := CASE forgotten WHEN most THEN from_ms ELSE done_ms END;
    DELETE FROM remembered_pop WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM remembered_pop WHERE ends_ms BETWEEN from_ms AND at_ms ORDER BY ends_ms LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    done_ms := CASE forgotten WHEN most THEN from_ms ELSE done_ms END;
    PERFORM forget_room_beside(most);
    RETURN NEXT ROW(null, 't', done_ms, null, null, null, null, null, null, null, at_ms, null, null, null, null, null,
        null)::answer;
END $$;
COMMENT ON FUNCTION tick(bigint, bigint, int) IS
'Does what is due from from_ms to at_ms: ends delays and leases, removes expired messages and keys, and the room noted for transactions that have ended. Returns what became available, how many messages were returned, expired or became dead letters, and up to which time all is done, which is before at_ms (given as due_ms) if there may be more. Does not wait. Plan: message_aside_by_due, queue_pkey for each, message_by_expiry, the indexes by end; as forget_room_beside.';
