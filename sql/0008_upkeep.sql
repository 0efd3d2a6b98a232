-- Upkeep: functions that a middleware calls from time to time, among them those that keep the tables small.

SET LOCAL search_path = posthaste;

CREATE FUNCTION upkeep(given_ms bigint, from_ms bigint, most int) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    RETURN QUERY SELECT * FROM tick(coalesce(given_ms, now_ms()), from_ms, most);
END $$;
COMMENT ON FUNCTION upkeep(bigint, bigint, int) IS
'Does what is due from from_ms to given_ms (null: now), for at most so many messages of each kind. Everything before from_ms is taken to be done, so that its index entries, which an open transaction may keep, are not walked again; what was due then and was committed late is found by calls with a given_ms in the past. Plan: as tick.';

CREATE FUNCTION free_queues(queue_names text[], may_wait boolean) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    queue_name text;
    none boolean := true;
BEGIN
    FOREACH queue_name IN ARRAY queue_names LOOP
        PERFORM FROM queue WHERE name = queue_name FOR NO KEY UPDATE SKIP LOCKED;
        -- The lock of a name is left to whoever keeps the row, who may create the queue anew.
        IF FOUND OR queue_named(queue_name) IS NULL AND try_lock_name(queue_name) THEN
            none := false;
            RETURN NEXT queue_name;
        END IF;
    END LOOP;
    IF none AND may_wait THEN
        -- A row that is locked by one batch after another is never seen free: only a transaction that waits for it gets it.
        queue_name := queue_names[1 + floor(random() * cardinality(queue_names))];
        BEGIN
            PERFORM FROM queue WHERE name = queue_name FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                PERFORM lock_name(queue_name);
            END IF;
            RETURN NEXT queue_name;
        EXCEPTION WHEN lock_not_available OR SQLSTATE 'PHLCK' THEN
        END;
    END IF;
END $$;
COMMENT ON FUNCTION free_queues(text[], boolean) IS
'Those of these queues whose names and rows no other transaction has locked, and those that do not exist. If all are locked, waits for one of them if it may, at most 1 s for its row, or for its name if it has none. Plan: queue_name_key.';

CREATE FUNCTION locked_leases(given_ms bigint, named bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    lease bigint;
BEGIN
    FOREACH lease IN ARRAY named LOOP
        PERFORM FROM message WHERE ring = 2 AND id = lease AND coalesce(due_ms, 0) > at_ms AND holder_id IS NOT NULL
            FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (
            SELECT FROM message WHERE ring = 2 AND id = lease AND coalesce(due_ms, 0) > at_ms AND holder_id IS NOT NULL)
        THEN
            RETURN NEXT lease;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION locked_leases(bigint, bigint[]) IS
'Those of these leased messages whose rows other transactions have locked. Locks the rest; does not wait. Plan: message_aside_by_id, once or twice for each.';

CREATE FUNCTION watch_news(watcher bigint, keep_ms bigint) RETURNS void LANGUAGE sql
SET search_path = posthaste, pg_temp AS $$
    DELETE FROM watch WHERE until_ms <= now_ms();
    INSERT INTO watch VALUES (watcher, now_ms() + keep_ms) ON CONFLICT (middleware) DO UPDATE SET until_ms = excluded.until_ms
$$;
COMMENT ON FUNCTION watch_news(bigint, bigint) IS 'Registers that clients of this middleware wait for messages: for keep_ms it is to be notified of messages that become available elsewhere. Plan: watch_pkey; reads all of the table, a row for each middleware.';

CREATE FUNCTION tell_news(teller bigint, news text) RETURNS boolean LANGUAGE plpgsql
SET search_path = posthaste, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM watch WHERE middleware <> teller AND until_ms > now_ms()) THEN
        PERFORM pg_notify('posthaste', teller::text || ' ' || news);
        RETURN true;
    END IF;
    RETURN false;
END $$;
COMMENT ON FUNCTION tell_news(bigint, text) IS
'Notifies other middlewares that messages became available, if any of them waits; returns whether it did. Called after the commit that made the messages available, for many at once, so that no batch holds the lock of NOTIFY. Plan: reads all of watch, a row for each middleware.';

-- The ring ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION dumps_elsewhere() RETURNS TABLE (transaction text, tables bigint) LANGUAGE sql
SET search_path = posthaste, pg_temp AS $$
    WITH locked AS (
        SELECT l.virtualtransaction, l.granted, t.oid FROM pg_stat_activity AS a JOIN pg_locks AS l ON l.pid = a.pid
            -- Tables alone, since others are locked for a moment now and then; 16384 is the lowest number that users' tables have.
            LEFT JOIN pg_class AS t ON t.oid = l.relation AND t.oid >= 16384 AND t.relkind IN ('r', 'p')
        WHERE a.datname = current_database() AND a.application_name = 'pg_dump')
    SELECT l.virtualtransaction, (SELECT count(DISTINCT oid) FROM locked) FROM locked AS l
    GROUP BY l.virtualtransaction
    HAVING count(l.oid) > 0 AND bool_and(l.granted)
        AND count(*) FILTER (WHERE l.oid IN ('message_0'::regclass, 'message_1'::regclass, 'message_aside'::regclass)) = 0
$$;
COMMENT ON FUNCTION dumps_elsewhere() IS
'The transactions of pg_dump in this database that have locked tables, but none with messages, and wait for no lock; and how many tables all that are called so have locked together. pg_dump locks everything that it is going to read first, and its parallel workers lock parts of that again. So if that number stays the same for a while, they are not going to read messages. Every role can see this. Plan: pg_class_oid_index.';

CREATE FUNCTION is_dumped(elsewhere text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE session record;
BEGIN
    -- Within a transaction the view stays as it was read first.
    PERFORM pg_stat_clear_snapshot();
    FOR session IN SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pg_dump' LOOP
        IF NOT EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = session.pid AND virtualtransaction = ANY(elsewhere)) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;
COMMENT ON FUNCTION is_dumped(text[]) IS
'Whether pg_dump is connected to this database, as any role, and might read messages: not in one of these transactions. Every role can see that. Plan: no table.';

CREATE FUNCTION part_bytes(part regclass) RETURNS bigint LANGUAGE sql AS $$
    SELECT greatest(pg_relation_size(part), pg_table_size(part) / 16)
$$;
COMMENT ON FUNCTION part_bytes(regclass) IS
'The size of a part of the ring, by which it is turned: that of its rows, dead ones included, or a sixteenth of what it takes with the bodies that are stored outside of them. No read walks those, but only TRUNCATE gives back their space. Plan: no table.';

CREATE FUNCTION kept_truncations() RETURNS bigint LANGUAGE sql AS $$
    SELECT pg_stat_get_dead_tuples('pg_catalog.pg_class'::regclass) / 8
$$;
COMMENT ON FUNCTION kept_truncations() IS
'About how many TRUNCATEs of a part have left what no vacuum could remove yet, by PostgreSQL''s statistics, which are a second late: each replaces eight rows of pg_class. While a transaction is held open elsewhere they add up, and whoever looks a part up walks all of its own: each next TRUNCATE, and each session after it. Plan: no table.';

CREATE FUNCTION turn_ring(bytes_min bigint, patience_ms int, piece int, INOUT oldest bigint, INOUT head text,
    elsewhere text[] DEFAULT '{}', OUT said text) LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0 SET synchronize_seqscans = off
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    few constant int := 50;
    countable constant int := 20000;
    -- Every so many truncations that are kept, the part is turned at bytes_min more, up to so many times. Together the turns
    -- of a MiB then cost no more than twice what they cost without an open transaction, until that is reached.
    truncations_each constant int := 1000;
    times_max constant int := 16;
    -- How much is rewritten while all others wait, for some 20 ms.
    piece_bytes constant bigint := 4 << 20;
    now_part smallint := current_part();
    other text := 'message_' || (1 - now_part);
    current_bytes bigint := part_bytes('posthaste.message_' || now_part);
    other_bytes bigint := pg_relation_size('posthaste.' || other);
    oldest_before bigint := oldest;
    turn text := pg_sequence_last_value('ring_turn');
    -- Skips the pages before the first row of the last call, which were empty then. Rows added since are found at the end.
    start tid := CASE WHEN split_part(head, ' ', 1) = turn THEN split_part(head, ' ', 2) ELSE '(0,0)' END;
    live bigint;
    body_bytes bigint;
    first_row tid;
    is_read boolean;
    live_bytes bigint;
    moved bigint;
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    oldest := null;
    IF NOT pg_try_advisory_xact_lock(hashtext('posthaste.ring'), 0) THEN
        said := 'another middleware turns it';
        RETURN;
    ELSIF other_bytes = 0 THEN
        head := null;
        IF current_bytes >= bytes_min
            AND current_bytes >= bytes_min * least(1 + kept_truncations() / truncations_each, times_max)
        THEN
            PERFORM nextval('ring_turn');
            UPDATE ring SET since_ms = now_ms();
            said := 'turned';
        END IF;
        RETURN;
    END IF;
    EXECUTE format('SELECT count(*), sum(octet_length(body)), (array_agg(row_at))[1], (array_agg(place))[1]
        FROM (SELECT ctid AS row_at, place, body FROM %I WHERE ctid >= $2 LIMIT $1) AS l', other)
        INTO live, body_bytes, first_row, oldest USING countable + 1, start;
    head := turn || ' ' || first_row;
    -- An estimate of 300 bytes for a message, or a sixteenth of its body, as in part_bytes; if there are too many to count,
    -- the share of the pages from the first row's on.
    live_bytes := CASE WHEN live <= countable THEN greatest(live * 300, body_bytes / 16)
        ELSE part_bytes('posthaste.' || other) * (1 - (first_row::text::point)[0] * 8192 / other_bytes) END;
    is_read := oldest IS DISTINCT FROM oldest_before;
    -- While this part is being read, messages are left in it and the current part grows:
    --   * A few messages are left until the current part has twice bytes_min. They will soon be popped, and once set aside
    --     every read of their lane would walk their dead rows while an open transaction keeps these.
    --   * A backlog is left for longer.
    -- Messages that are not being read are set aside, more than `few` once the current part has bytes_min, unless they are
    -- more than `countable`. Everything is, once the current part has eight times bytes_min and five times as much as is
    -- left: to let it grow further would cost more.
    IF live > 0 AND is_read AND current_bytes < 2 * bytes_min
        OR live > few AND (is_read OR live > countable OR current_bytes < bytes_min)
            AND (current_bytes < 8 * bytes_min OR current_bytes < 5 * live_bytes)
    THEN
        said := 'backlog in ' || other;
        RETURN;
    -- Asked before the lock too, for which all others wait.
    ELSIF live = 0 AND is_dumped(elsewhere) THEN
        said := 'pg_dump may be about to read ' || other;
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    BEGIN
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', other);
    EXCEPTION WHEN lock_not_available THEN
        said := 'readers keep a lock on ' || other;
        RETURN;
    END;
    -- A piece at a time, and no page twice, since readers wait meanwhile. The lengths are known without reading bodies.
    EXECUTE format('WITH gone AS (
            DELETE FROM %1$I WHERE ctid = ANY(ARRAY(
                SELECT row_at FROM (
                    SELECT row_at, row_number() OVER piece AS number, sum(bytes) OVER piece AS bytes
                    FROM (SELECT ctid AS row_at, content_bytes(headers, body) AS bytes FROM %1$I WHERE ctid >= $1 LIMIT $2) AS l
                    WINDOW piece AS (ROWS UNBOUNDED PRECEDING)) AS p
                WHERE number = 1 OR bytes <= $3)) RETURNING *)
        INSERT INTO message_aside (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
        deliveries, sent_ms, expires_ms, first_queue, reason, headers, body)
        SELECT 2, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt, deliveries, sent_ms, expires_ms,
        first_queue, reason, headers, body FROM gone', other) USING first_row, piece, piece_bytes;
    GET DIAGNOSTICS moved = ROW_COUNT;
    EXECUTE format('SELECT place FROM %I WHERE ctid >= $1 LIMIT 1', other) INTO oldest USING first_row;
    IF oldest IS NULL THEN
        -- It seems empty, so all pages are checked: rows may have been added while the lock was waited for.
        EXECUTE format('SELECT place FROM %I WHERE ctid >= $1 LIMIT 1', other) INTO oldest USING '(0,0)'::tid;
    END IF;
    -- Not truncated in the call that set the last messages aside: a transaction with a snapshot from before it and no lock
    -- yet, as pg_dump is for a moment, would see them nowhere. A pg_dump that is connected now may have such a snapshot.
    IF oldest IS NULL AND moved = 0 THEN
        IF is_dumped(elsewhere) THEN
            said := 'pg_dump may be about to read ' || other;
            RETURN;
        END IF;
        EXECUTE format('TRUNCATE %I', other);
        said := 'emptied ' || other;
    ELSE
        said := format('eased %s, %s messages set aside', other, moved);
    END IF;
END $$;
COMMENT ON FUNCTION turn_ring(bigint, int, int, bigint, text, text[]) IS
'One step of turning the ring, to be called every now and then. If the part that is not appended to is empty and the other has bytes_min, or a multiple of that if many truncations are kept, appends to it from now on. Otherwise empties it, a piece of so many messages and 4 MiB at most in each call, once it is not being read any more: its first message is still the one of the last call (oldest and head are what that call returned); or once too little is left compared with the other part. Waits at most patience_ms for readers. It is not emptied while pg_dump might read it, except in these transactions, as dumps_elsewhere gave them. TRUNCATE gives back the space of dead rows and their index entries at once, whatever transactions are held open elsewhere. Plan: reads the part up to 20,000 messages that are left, from the first one of the last call on (before version 14 from the beginning).';

-- What is kept aside -------------------------------------------------------------------------------------------------

-- How many entries had been walked when message_aside was rewritten last. A sequence, since all middlewares share it.
CREATE SEQUENCE aside_walked MINVALUE 0;

CREATE FUNCTION entries_walked(part regclass) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on AS $$
BEGIN
    RETURN (SELECT coalesce(sum(pg_stat_get_tuples_returned(indexrelid) - pg_stat_get_tuples_fetched(indexrelid)), 0)
        FROM pg_index WHERE indrelid = part);
END $$;
COMMENT ON FUNCTION entries_walked(regclass) IS
'How many index entries of removed rows reads have met in a part so far, by PostgreSQL''s statistics, which are a second late. An entry counts once if the row can be removed, since it is left out from then on, and each time while an open transaction keeps the row. Plan: pg_index_indrelid_index.';

CREATE FUNCTION rewrite_aside(patience_ms int, elsewhere text[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0 SET synchronize_seqscans = off
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    -- What it costs, in entries that could be walked instead: by itself, and for each message that stays.
    entries_of_its_own constant bigint := 200000;
    entries_each constant bigint := 100;
    -- How much is rewritten while all others wait, for some 50 ms.
    most constant int := 5000;
    most_bytes constant bigint := 4 << 20;
    walked bigint := entries_walked('posthaste.message_aside');
    before bigint := coalesce(pg_sequence_last_value('posthaste.aside_walked'), 0);
    held bigint;
    held_bytes bigint;
    kept message[];
BEGIN
    IF walked < before THEN
        -- The statistics began anew, or these are another server's.
        PERFORM setval('posthaste.aside_walked', walked);
        RETURN null;
    ELSIF walked - before < entries_of_its_own OR NOT pg_try_advisory_xact_lock(hashtext('posthaste.aside'), 0) THEN
        RETURN null;
    ELSIF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    SELECT count(*), coalesce(sum(bytes), 0) INTO held, held_bytes FROM (
        SELECT content_bytes(headers, body) AS bytes FROM message_aside LIMIT most + 1) AS m;
    IF held > most OR held_bytes > most_bytes THEN
        RETURN 'too much is kept aside';
    ELSIF walked - before < entries_of_its_own + held * entries_each THEN
        RETURN null;
    ELSIF is_dumped(elsewhere) THEN
        RETURN 'pg_dump may be about to read message_aside';
    END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    BEGIN
        LOCK TABLE message_aside IN ACCESS EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 'readers keep a lock on message_aside';
    END;
    -- Whoever waits for this lock takes its snapshot afterwards, so it sees these messages again; except for pg_dump. One that
    -- has connected meanwhile may have an older snapshot, which would show it nothing of what is aside. Then this is undone.
    BEGIN
        SELECT coalesce(array_agg(m), '{}') INTO kept FROM message AS m WHERE ring = 2;
        TRUNCATE message_aside;
        INSERT INTO message SELECT k.* FROM unnest(kept) AS k;
        IF is_dumped(elsewhere) THEN
            RAISE SQLSTATE 'PHDMP';
        END IF;
    EXCEPTION WHEN SQLSTATE 'PHDMP' THEN
        RETURN 'pg_dump may be about to read message_aside';
    END;
    PERFORM setval('posthaste.aside_walked', walked);
    RETURN format('rewrote message_aside, %s messages', cardinality(kept));
END $$;
COMMENT ON FUNCTION rewrite_aside(int, text[]) IS
'To be called now and then: once reads have walked so many index entries of removed messages aside that it costs less to write the remaining ones anew, into empty indexes, does that. So reads of leased, returned, delayed, prioritized and SQL messages do not slow down more and more while an open transaction keeps what was removed. Not if more than 5,000 messages or 4 MiB remain, since all others wait meanwhile, nor while pg_dump might read them, except in these transactions, as dumps_elsewhere gave them. Waits at most patience_ms for readers. Plan: as entries_walked; reads message_aside from end to end.';

CREATE FUNCTION settled_id(patience_ms int) RETURNS bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    PERFORM pg_advisory_xact_lock(hashtext('posthaste.append'), 0);
    RETURN newest_id();
EXCEPTION WHEN lock_not_available THEN
    RETURN null;
END $$;
COMMENT ON FUNCTION settled_id(int) IS
'An id up to which all messages of the ring are committed: it is read when every batch that appends has ended. Null if they do not end within patience_ms. To be called in a transaction of its own, since batches wait as long as it is open.';

CREATE FUNCTION long_ring_bytes() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 1::bigint << 20 $$;
COMMENT ON FUNCTION long_ring_bytes() IS 'The size from which on a ring is long: it is not read from end to end, and its index by place is worth its upkeep.';

CREATE FUNCTION note_floor(found_place bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- To walk fewer messages than this costs less than to write.
    worth constant bigint := 1000;
    before bigint := noted_floor();
BEGIN
    IF found_place >= before + worth THEN
        INSERT INTO ring_floor VALUES (found_place) ON CONFLICT DO NOTHING;
        DELETE FROM ring_floor WHERE place >= before AND place < found_place;
    END IF;
END $$;
COMMENT ON FUNCTION note_floor(bigint) IS
'Writes down a floor for callers that know none, in place of the one before. Plan: ring_floor_pkey.';

CREATE FUNCTION lowest_place(settled bigint, known bigint, patience_ms int, OUT lowest bigint, OUT up_to bigint, OUT is_long boolean)
LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    -- How many ids are looked at together at first: hardly more than the index by place can distinguish, since in a backlog
    -- the first message is found at once.
    width bigint := 1000;
    ends timestamptz := clock_timestamp() + patience_ms * interval '1 ms';
BEGIN
    up_to := place_of(0, settled);
    is_long := pg_relation_size('posthaste.message_0') + pg_relation_size('posthaste.message_1') > long_ring_bytes();
    IF NOT is_long THEN
        SELECT least(min(place), up_to) INTO lowest FROM message WHERE ring IN (0, 1);
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    BEGIN
        PERFORM brin_summarize_new_values('posthaste.message_0_by_place'), brin_summarize_new_values('posthaste.message_1_by_place');
    EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
        -- Without summaries every search reads all of the newest pages.
        is_long := false;
    END;
    known := greatest(known, place_of(0, 0));
    WHILE known < up_to AND clock_timestamp() < ends LOOP
        SELECT min(place) INTO lowest FROM message WHERE ring IN (0, 1) AND place >= known AND place < known + width;
        EXIT WHEN lowest IS NOT NULL;
        known := least(known + width, up_to);
        width := 2 * width;
    END LOOP;
    lowest := least(coalesce(lowest, known), up_to);
    PERFORM note_floor(lowest);
END $$;
COMMENT ON FUNCTION lowest_place(bigint, bigint, int) IS
'A place below which the ring holds nothing and never will, searched from a known one on, for little more than patience_ms. up_to: the place of the settled id; is_long: whether the ring is long and can be read by place. Called after settled_id, in another transaction. Plan: reads a short ring from end to end; of a long one message_0_by_place, message_1_by_place, for some messages at a time.';

CREATE FUNCTION take_census(from_place bigint, to_place bigint)
RETURNS TABLE (queue bigint, sender int, recipient int, place bigint) LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN QUERY SELECT m.queue_id, m.sender_id, m.recipient_id, min(m.place) FROM message m
        WHERE ring IN (0, 1) AND m.place >= from_place AND m.place < to_place GROUP BY m.queue_id, m.sender_id, m.recipient_id;
END $$;
COMMENT ON FUNCTION take_census(bigint, bigint) IS
'What a long ring holds from one place on and below another: the first place of each lane that is not empty. A lane that is not returned stays empty there, if the places were settled before the call. Reads all rows in between. Plan: message_0_by_place, message_1_by_place.';

CREATE FUNCTION first_places(queues bigint[], senders int[], recipients int[], places bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT least(
            (SELECT place FROM message_0 WHERE queue_id = u.queue AND sender_id = u.sender AND recipient_id = u.recipient
                AND due_ms IS NULL AND place >= u.first ORDER BY place LIMIT 1),
            (SELECT place FROM message_1 WHERE queue_id = u.queue AND sender_id = u.sender AND recipient_id = u.recipient
                AND due_ms IS NULL AND place >= u.first ORDER BY place LIMIT 1))
        FROM unnest(queues, senders, recipients, places) WITH ORDINALITY AS u(queue, sender, recipient, first, at) ORDER BY u.at);
END $$;
COMMENT ON FUNCTION first_places(bigint[], int[], int[], bigint[]) IS
'The first places of these lanes in the ring, which hold nothing before the given places; null for a lane that is empty. Plan: message_by_both, two seeks for each.';

-- When one process of the server is killed, changes that were not flushed are lost, but the server's start time does not
-- change. An unlogged table is emptied then, so the number in its row is another one afterwards. A dump has that row, but
-- the table that is made from it has another OID.
CREATE UNLOGGED TABLE life (
    number bigint NOT NULL,
    is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one)
);

CREATE FUNCTION highest_in_ring() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN pg_relation_size('posthaste.message_0') + pg_relation_size('posthaste.message_1') <= long_ring_bytes()
        THEN (SELECT max(id) FROM message WHERE ring IN (0, 1)) END;
END $$;
COMMENT ON FUNCTION highest_in_ring() IS
'The highest id in the ring; null if it holds nothing, or is long: then noted_floor tells of one, as soon as a middleware has looked for it. Plan: reads a short ring from end to end.';

CREATE FUNCTION life() RETURNS bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    known bigint := (SELECT number # tableoid::bigint FROM life);
    -- Read before the sequence: as that only grows, it is never behind by accident.
    highest bigint := greatest(id_at(noted_floor()), highest_in_ring(), (SELECT id FROM message_aside ORDER BY id DESC LIMIT 1));
BEGIN
    -- Logical replication copies tables and no sequences. New messages would then be below the floors, where no read looks.
    IF highest > newest_id() THEN
        RAISE EXCEPTION USING ERRCODE = 'PHSEQ', MESSAGE = format(
            'the sequence posthaste.message_id is at %s and there were messages up to %s at least, so what is sent would not be found: set '
            'the sequences of the schema posthaste to what they were where these tables come from', newest_id(), highest);
    END IF;
    IF known IS NULL THEN
        INSERT INTO life (number) VALUES (new_receipt()) ON CONFLICT DO NOTHING;
        known := (SELECT number # tableoid::bigint FROM life);
    END IF;
    RETURN known;
END $$;
COMMENT ON FUNCTION life() IS
'A number that stays the same until the server loses changes, is restored from a backup, or a dump is loaded in place of the database. Fails with PHSEQ if ids of messages would be used again. Plan: life, which has one row; as noted_floor, highest_in_ring; message_aside_by_id, backwards.';

CREATE FUNCTION meet_as(account_name text, logs_in boolean, patience_ms int) RETURNS int LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    RETURN CASE WHEN logs_in THEN log_in(account_name) ELSE meet(account_name) END;
EXCEPTION WHEN lock_not_available THEN
    PERFORM refuse_locked_accounts(ARRAY[account_name]);
END $$;
COMMENT ON FUNCTION meet_as(text, boolean, int) IS
'log_in or meet, for the middleware: waits at most patience_ms for another transaction, then fails as refuse_locked_accounts. Plan: as log_in.';

CREATE FUNCTION meet_all(names text[], logs_in boolean, patience_ms int) RETURNS int[] LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    until timestamptz := clock_timestamp() + patience_ms * interval '1 ms';
    numbers int[] := array_fill(NULL::int, ARRAY[cardinality(names)]);
    wanted record;
BEGIN
    FOR wanted IN SELECT u.account_name, u.place FROM unnest(names) WITH ORDINALITY AS u(account_name, place) ORDER BY u.account_name LOOP
        BEGIN
            -- 0 would be for ever.
            PERFORM set_config('lock_timeout', greatest(1, extract(epoch FROM until - clock_timestamp()) * 1000)::int::text, true);
            numbers[wanted.place] := CASE WHEN logs_in THEN log_in(wanted.account_name) ELSE meet(wanted.account_name) END;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;
        END;
    END LOOP;
    RETURN numbers;
END $$;
COMMENT ON FUNCTION meet_all(text[], boolean, int) IS
'log_in or meet for each of these names, in their order, for the middleware; null for an account that another transaction keeps. Waits at most patience_ms for all of them together, and then 1 ms for each. Plan: as log_in.';

CREATE FUNCTION log_in_all(names text[]) RETURNS bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    RETURN (SELECT count(log_in(account_name)) FROM (
        SELECT u.account_name FROM unnest(names) AS u(account_name) WHERE (SELECT known FROM account WHERE name = u.account_name) IS NOT TRUE
        ORDER BY u.account_name) AS sorted);
END $$;
COMMENT ON FUNCTION log_in_all(text[]) IS
'Logs in those of these accounts that are not known yet, in the order of their names, and returns how many they were. Plan: account_name_key for each; as log_in.';
