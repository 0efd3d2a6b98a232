-- Upkeep: what a middleware asks for from time to time, and what keeps the tables flat.

SET LOCAL search_path = posthaste;

CREATE FUNCTION upkeep(given_ms bigint, from_ms bigint, most int) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    RETURN QUERY SELECT * FROM tick(coalesce(given_ms, now_ms()), from_ms, most);
END $$;
COMMENT ON FUNCTION upkeep(bigint, bigint, int) IS
'Lets time pass, for at most so many messages of each kind. What was due before from_ms is taken to be done with: its index entries, which a transaction held open elsewhere keeps from being removed, are not walked again; what was committed later is found by going through the past, with a given_ms that is over. Plan: as tick.';

CREATE FUNCTION free_queues(queue_names text[]) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    queue_name text;
    none boolean := true;
BEGIN
    FOREACH queue_name IN ARRAY queue_names LOOP
        CONTINUE WHEN NOT try_lock_name(queue_name);
        PERFORM FROM queue WHERE name = queue_name FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND OR queue_named(queue_name) IS NULL THEN
            none := false;
            RETURN NEXT queue_name;
        END IF;
    END LOOP;
    IF none THEN
        -- Where batches of others take turns a row is free for no time, and whoever does not wait in line has none.
        queue_name := queue_names[1 + floor(random() * cardinality(queue_names))];
        BEGIN
            PERFORM lock_name(queue_name);
            PERFORM FROM queue WHERE name = queue_name FOR NO KEY UPDATE;
            RETURN NEXT queue_name;
        EXCEPTION WHEN lock_not_available OR SQLSTATE 'PHLCK' THEN
        END;
    END IF;
END $$;
COMMENT ON FUNCTION free_queues(text[]) IS
'Those of these queues whose names and rows nobody keeps locked, and those that are not there; if all are locked, one is waited for. Plan: queue_name_key.';

CREATE FUNCTION kept_leases(given_ms bigint, named bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    lease bigint;
BEGIN
    FOREACH lease IN ARRAY named LOOP
        PERFORM FROM message WHERE ring = 2 AND id = lease AND due_ms > at_ms AND holder_id IS NOT NULL FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (SELECT FROM message WHERE ring = 2 AND id = lease AND due_ms > at_ms AND holder_id IS NOT NULL) THEN
            RETURN NEXT lease;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION kept_leases(bigint, bigint[]) IS
'Those of these leased messages whose rows somebody keeps locked. Waits for nobody; locks the others. Plan: message_aside_by_id, once or twice for each.';

CREATE FUNCTION watch_news(who bigint, keep_ms bigint) RETURNS void LANGUAGE sql
SET search_path = posthaste, pg_temp AS $$
    DELETE FROM watch WHERE until_ms <= now_ms();
    INSERT INTO watch VALUES (who, now_ms() + keep_ms) ON CONFLICT (middleware) DO UPDATE SET until_ms = excluded.until_ms
$$;
COMMENT ON FUNCTION watch_news(bigint, bigint) IS 'Clients of this middleware wait for messages: sends elsewhere are to be told for so long. Plan: watch_pkey; reads all of the table, a row for each middleware.';

CREATE FUNCTION tell_news(who bigint, news text) RETURNS boolean LANGUAGE plpgsql
SET search_path = posthaste, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM watch WHERE middleware <> who AND until_ms > now_ms()) THEN
        PERFORM pg_notify('posthaste', who::text || ' ' || news);
        RETURN true;
    END IF;
    RETURN false;
END $$;
COMMENT ON FUNCTION tell_news(bigint, text) IS
'Tells other middlewares that messages became available, if any of them waits. Called after the commit that made them available, for many at once, so that NOTIFY''s lock is never held by a batch. Plan: reads all of watch, a row for each middleware.';

-- The ring ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION is_dumped() RETURNS boolean LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pg_dump')
$$;
COMMENT ON FUNCTION is_dumped() IS 'Whether pg_dump is connected to this database, as whatever role. Every role may know. Plan: no table.';

CREATE FUNCTION turn_ring(bytes_min bigint, patience_ms int, piece int, INOUT oldest bigint, INOUT head text, OUT said text)
LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0 SET synchronize_seqscans = off
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    few constant int := 50;
    countable constant int := 20000;
    -- What is written again while all others wait: some 20 ms.
    piece_bytes constant bigint := 4 << 20;
    now_part smallint := current_part();
    other text := 'message_' || (1 - now_part);
    -- Dead rows count, for they cost space.
    current_bytes bigint := pg_relation_size('posthaste.message_' || now_part);
    other_bytes bigint := pg_relation_size('posthaste.' || other);
    oldest_before bigint := oldest;
    turn text := pg_sequence_last_value('ring_turn');
    -- What stands before the first row of the last call was removed then; more may have come there since, which waits.
    start tid := CASE WHEN split_part(head, ' ', 1) = turn THEN split_part(head, ' ', 2) ELSE '(0,0)' END;
    live bigint;
    first_row tid;
    is_read boolean;
    live_bytes bigint;
    moved bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    oldest := null;
    IF NOT pg_try_advisory_xact_lock(hashtext('posthaste.ring'), 0) THEN
        said := 'another middleware turns it';
        RETURN;
    ELSIF other_bytes = 0 THEN
        head := null;
        IF current_bytes >= bytes_min THEN
            PERFORM nextval('ring_turn');
            UPDATE ring SET since_ms = now_ms();
            said := 'turned';
        END IF;
        RETURN;
    END IF;
    EXECUTE format('SELECT count(*), (array_agg(row_at))[1], (array_agg(place))[1]
        FROM (SELECT ctid AS row_at, place FROM %I WHERE ctid >= $2 LIMIT $1) AS l', other)
        INTO live, first_row, oldest USING countable + 1, start;
    head := turn || ' ' || first_row;
    -- 300 bytes for a message; of more than can be counted, all pages from the first one's on.
    live_bytes := CASE WHEN live <= countable THEN live * 300 ELSE other_bytes - (first_row::text::point)[0] * 8192 END;
    is_read := oldest IS DISTINCT FROM oldest_before;
    -- What is being read is waited for, while the other part grows: few messages until it has twice its size, for they are gone in a
    -- moment, and what is set aside is walked by every read of its lane where a transaction elsewhere keeps dead rows; a backlog
    -- for longer. What nobody reads is set aside, unless there is much of it; and so is whatever is left, once the other part has
    -- grown to five times as much: letting it grow further would cost more.
    IF live > 0 AND is_read AND current_bytes < 2 * bytes_min
        OR live > few AND (is_read OR live > countable OR current_bytes < bytes_min)
            AND (current_bytes < 8 * bytes_min OR current_bytes < 5 * live_bytes)
    THEN
        said := 'backlog in ' || other;
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    BEGIN
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', other);
    EXCEPTION WHEN lock_not_available THEN
        said := 'somebody reads ' || other;
        RETURN;
    END;
    -- A piece at a time, and no page twice, for whoever reads waits meanwhile. To learn lengths no body is read.
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
        -- When it seems empty, every page counts: something may have come while the lock was waited for.
        EXECUTE format('SELECT place FROM %I WHERE ctid >= $1 LIMIT 1', other) INTO oldest USING '(0,0)'::tid;
    END IF;
    -- Truncated in another call than that which set the last ones aside: who has a snapshot from before and no lock yet, as pg_dump
    -- has for a moment, would see them nowhere. One that is there now may have a snapshot from before that call.
    IF oldest IS NULL AND moved = 0 THEN
        IF is_dumped() THEN
            said := 'pg_dump may be about to read ' || other;
            RETURN;
        END IF;
        EXECUTE format('TRUNCATE %I', other);
        said := 'emptied ' || other;
    ELSE
        said := format('eased %s, %s messages set aside', other, moved);
    END IF;
END $$;
COMMENT ON FUNCTION turn_ring(bigint, int, int, bigint, text) IS
'One half of a turn, to be called every now and then: empties the part of the ring that is not appended to, in pieces of so many messages and 4 MiB at most, once next to nothing is left in it or its first message is the one that it was at the last call (oldest, head: the answers of that call), waiting for readers of it at most so long; or, when it is empty and the other large enough, appends to it from now on. What a transaction elsewhere holds open does not matter: TRUNCATE gives the space of dead rows and their index entries back at once. Plan: reads the part up to 20,000 messages that are left, from the first one of the last call on (before version 14 from the beginning).';

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
'An id up to which whatever is in the ring is committed: every batch that appends is over when it is drawn. Null when they were not over in time. To be called in a transaction of its own, for batches wait as long as it is open.';

CREATE FUNCTION long_ring_bytes() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 1::bigint << 20 $$;
COMMENT ON FUNCTION long_ring_bytes() IS 'A ring of more is not read from end to end, and its index by place is worth its upkeep.';

CREATE FUNCTION note_floor(found_place bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- Fewer messages than this are walked for less than it costs to write.
    worth constant bigint := 1000;
    before bigint := noted_floor();
BEGIN
    IF found_place >= before + worth THEN
        INSERT INTO ring_floor VALUES (found_place) ON CONFLICT DO NOTHING;
        DELETE FROM ring_floor WHERE place >= before AND place < found_place;
    END IF;
END $$;
COMMENT ON FUNCTION note_floor(bigint) IS
'Writes a floor down for who brings none along, in place of the one before. Plan: ring_floor_pkey.';

CREATE FUNCTION lowest_place(settled bigint, known bigint, patience_ms int, OUT lowest bigint, OUT up_to bigint, OUT is_long boolean)
LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    -- Messages that are looked at together, the first time: hardly more than the index by place tells apart, for where a stock
    -- stands, its first message is found at once.
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
        -- Its newest pages would all be read whatever is looked for.
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
'A place below which nothing of the ring is left, nor will be, from a known one on; looks no longer than so many ms, or a little more. up_to: the place that is settled; is_long: whether the ring is, and can be read by place. Called after settled_id, in another transaction. Plan: reads a short ring from end to end; of a long one message_0_by_place, message_1_by_place, for some messages at a time.';

CREATE FUNCTION take_census(from_place bigint, to_place bigint)
RETURNS TABLE (queue bigint, sender int, recipient int, place bigint) LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN QUERY SELECT m.queue_id, m.sender_id, m.recipient_id, min(m.place) FROM message m
        WHERE ring IN (0, 1) AND m.place >= from_place AND m.place < to_place GROUP BY m.queue_id, m.sender_id, m.recipient_id;
END $$;
COMMENT ON FUNCTION take_census(bigint, bigint) IS
'Where a long ring holds something from a place on and below another: the first place of each lane that is not empty. What was settled when this was called and is not in it is gone for good. Reads all that stands between. Plan: message_0_by_place, message_1_by_place.';

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
'Where lanes of the ring begin that have nothing before these places; null for one that is empty. Plan: message_by_both, two seeks for each.';

-- When one process of the server is killed, what none has flushed is lost, and the time of the server's start stays. What is not logged
-- is emptied then, so the row is another one afterwards.
CREATE UNLOGGED TABLE life (
    number bigint NOT NULL,
    is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one)
);

CREATE FUNCTION life() RETURNS bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    known bigint := (SELECT number FROM life);
    -- Read before the sequence, which only grows.
    highest bigint := greatest(id_at(noted_floor()), (SELECT id FROM message_aside ORDER BY id DESC LIMIT 1));
BEGIN
    -- As after a logical replication, which brings tables and no sequences. What is sent then would stand where nobody looks any more.
    IF highest > newest_id() THEN
        RAISE EXCEPTION USING ERRCODE = 'PHSEQ', MESSAGE = format(
            'the sequence posthaste.message_id is at %s and there were messages up to %s at least, so what is sent would not be found: set '
            'the sequences of the schema posthaste to what they were where these tables come from', newest_id(), highest);
    END IF;
    IF known IS NULL THEN
        INSERT INTO life (number) VALUES (new_receipt()) ON CONFLICT DO NOTHING;
        known := (SELECT number FROM life);
    END IF;
    RETURN known;
END $$;
COMMENT ON FUNCTION life() IS
'A number that stays until the server loses something, or is restored. Fails with PHSEQ where ids of messages would come again. Plan: life, which has one row; as noted_floor; message_aside_by_id, backwards.';

CREATE FUNCTION meet_as(who text, logs_in boolean, patience_ms int) RETURNS int LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    RETURN CASE WHEN logs_in THEN log_in(who) ELSE meet(who) END;
EXCEPTION WHEN lock_not_available THEN
    PERFORM refuse_kept(ARRAY[who]);
END $$;
COMMENT ON FUNCTION meet_as(text, boolean, int) IS
'log_in or meet, for the middleware: waits no longer than so many ms for somebody''s transaction, then fails as refuse_kept. Plan: as log_in.';

CREATE FUNCTION log_in_all(names text[]) RETURNS bigint LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    RETURN (SELECT count(log_in(who)) FROM (
        SELECT u.who FROM unnest(names) AS u(who) WHERE (SELECT known FROM account WHERE name = u.who) IS NOT TRUE
        ORDER BY u.who) AS sorted);
END $$;
COMMENT ON FUNCTION log_in_all(text[]) IS
'log_in for all of these who are not known, in the order of their names; how many that were. Plan: account_name_key for each; as log_in.';
