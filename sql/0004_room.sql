-- Room: how much may still be sent to a queue with limits, known without counting the queue for every batch.
--
-- MAXMSGS and MAXBYTES depend on how much a queue holds, which the database knows only by counting. An exact counter would
-- have to be updated by every transaction that adds or removes a message, so all of these, open transactions of SQL
-- clients included, would wait for one row. So a lower bound of the room is kept instead. A count writes down the room
-- that is left; a send takes its part of it, and a removal changes nothing, so the true room is never smaller. Only when
-- the bound does not suffice is the queue counted again, so a refusal is exact. A queue that is half full is counted once
-- for as many messages as the other half has room for.
--
-- Batches send under the queue's row lock, one after the other. Each writes the new room as a further row of `room`, of
-- which the highest number is valid. No row is updated, and a lookup reads the last entry of an index, so it does not walk
-- the dead rows that an open transaction keeps.
--
-- Messages that enter a queue without that lock (SQL clients, dead letters, redrive, --pop-strategy) are noted in `room_taken`,
-- which needs no waiting. The next batch subtracts them, and records up to which transaction it did, so that their dead
-- rows are not walked again. A count does not see transactions that have not committed yet.
--
-- A queue that stays full would be counted by every batch that sends to it. So from the time that a count finds it full,
-- messages that leave are noted too, and the room written down is exact. A transaction that removed a message just before
-- may have noted nothing and not committed yet, so the room counts as exact only after a count that began at least a
-- second later. Removals by transactions that were open for longer, and any others that were not noted, are found by the
-- next count, which is due once a minute.
--
-- A small queue is simply counted, which takes less time than all this.

SET LOCAL search_path = posthaste;

CREATE TABLE room (
    queue_id bigint NOT NULL,
    number bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    -- The notes of transactions before this one are already included.
    taken_from xid8 NOT NULL,
    -- When messages that leave began to be noted; when the last count began. Null: those that leave are not noted.
    noted_ms bigint,
    counted_ms bigint,
    PRIMARY KEY (queue_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE room IS 'How much may at least still be sent to each large queue with limits; of the rows of a queue the highest number is valid.';

CREATE TABLE room_taken (
    queue_id bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE room_taken REPLICA IDENTITY FULL;
CREATE INDEX room_taken_by_queue ON room_taken (queue_id, transaction);
COMMENT ON TABLE room_taken IS 'Messages that entered queues with a row in room without their lock, negative for those that left a full one, until the next batch subtracts them from the room.';

-- The time until which messages that leave are noted. A sequence can be read without a statement, and a new value is
-- visible to all transactions at once.
CREATE SEQUENCE room_noted_until MINVALUE 0;

CREATE FUNCTION room_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 200::bigint $$;
COMMENT ON FUNCTION room_from() IS 'The number of messages from which on it is cheaper to keep the room of a queue than to count it for every batch.';

CREATE FUNCTION room_exact_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 1000::bigint $$;
COMMENT ON FUNCTION room_exact_from() IS 'The number of messages from which on it is cheaper to note what leaves a full queue than to count it for every batch.';

-- Here and below in PL/pgSQL, which caches plans: functions in SQL would be planned anew for each message.
CREATE FUNCTION room_of(queue bigint) RETURNS room LANGUAGE plpgsql AS $$
DECLARE kept room;
BEGIN
    SELECT * INTO kept FROM room WHERE queue_id = queue ORDER BY number DESC LIMIT 1;
    RETURN kept;
END $$;
COMMENT ON FUNCTION room_of(bigint) IS 'The room that is written down for a queue; null if there is none. Plan: room_pkey, backwards.';

CREATE FUNCTION note_arrival(queue bigint, messages bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (room_of(queue)).number IS NOT NULL THEN
        INSERT INTO room_taken VALUES (queue, messages, bytes);
    END IF;
END $$;
COMMENT ON FUNCTION note_arrival(bigint, bigint, bigint) IS
'Notes messages that enter a queue without its lock, if its room is written down: they are subtracted from it. Does not wait. Plan: as room_of.';

CREATE FUNCTION leaving_is_noted() RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(pg_sequence_last_value('posthaste.room_noted_until') > now_ms(), false)
$$;
COMMENT ON FUNCTION leaving_is_noted() IS 'Whether some queue is full, so that every function that removes messages has to note them by note_departure or note_departures. Inlined.';

CREATE FUNCTION note_departure(queue bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM note_arrival(queue, -1, -bytes);
END $$;
COMMENT ON FUNCTION note_departure(bigint, bigint) IS
'Notes that a message leaves a queue, if the room of the queue is written down: it is added to it. Does not wait. Plan: as note_arrival.';

CREATE FUNCTION weight(part int, tids tid[]) RETURNS TABLE (queue_id bigint, messages bigint, bytes bigint) LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN QUERY SELECT m.queue_id, count(*), sum(octet_length(m.body))::bigint FROM message m
        WHERE m.ring = part AND m.ctid = ANY(tids) GROUP BY m.queue_id;
END $$;
COMMENT ON FUNCTION weight(int, tid[]) IS 'How many messages and bytes these rows are, for each queue. Plan: a Tid Scan, which reads lengths and no bodies.';

-- Functions that remove rows by ctid have index scans switched off; they are switched on again here.
CREATE FUNCTION note_departures(part int, tids tid[]) RETURNS void LANGUAGE plpgsql
SET enable_indexscan = on SET enable_indexonlyscan = on AS $$
BEGIN
    PERFORM note_arrival(w.queue_id, -w.messages, -w.bytes) FROM weight(part, tids) AS w;
END $$;
COMMENT ON FUNCTION note_departures(int, tid[]) IS
'Notes that the messages of these rows leave their queues; the rows are locked and about to be removed. Plan: as weight; as note_arrival for each queue.';

CREATE FUNCTION write_room(new room) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM room WHERE queue_id = new.queue_id AND number >= new.number - 1;
    INSERT INTO room SELECT (new).*;
END $$;
COMMENT ON FUNCTION write_room(room) IS
'Writes the room of a queue, whose row is locked, in place of the one before. Plan: room_pkey.';

CREATE FUNCTION not_done(kept room) RETURNS xid8 LANGUAGE sql STABLE AS $$
    -- In a database that was restored into another cluster, numbers of transactions may be lower than before.
    SELECT CASE WHEN (kept).taken_from <= pg_snapshot_xmin(pg_current_snapshot()) THEN (kept).taken_from ELSE '0'::xid8 END
$$;
COMMENT ON FUNCTION not_done(room) IS 'The first transaction whose notes may not be included in this room. Inlined.';

CREATE FUNCTION less_taken(kept room) RETURNS room LANGUAGE plpgsql AS $$
BEGIN
    -- A limit that is not set means the highest bigint, to which the messages that leave must not add.
    WITH taken AS (DELETE FROM room_taken t WHERE t.queue_id = kept.queue_id AND t.transaction >= not_done(kept)
        RETURNING t.messages, t.bytes)
    SELECT least(kept.messages - coalesce(sum(t.messages), 0), 9223372036854775807),
        least(kept.bytes - coalesce(sum(t.bytes), 0), 9223372036854775807),
        CASE WHEN count(*) > 0 THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE kept.taken_from END
        INTO kept.messages, kept.bytes, kept.taken_from FROM taken t;
    RETURN kept;
END $$;
COMMENT ON FUNCTION less_taken(room) IS
'A room less what was noted since it was written down; removes these notes. Plan: room_taken_by_queue.';

CREATE FUNCTION is_exact(kept room) RETURNS boolean LANGUAGE sql AS $$
    SELECT (kept).counted_ms BETWEEN greatest((kept).noted_ms + 1000, now_ms() - 60000) AND now_ms()
$$;
COMMENT ON FUNCTION is_exact(room) IS 'Whether a room is exact and not a lower bound only: all messages that left were noted. Inlined.';

CREATE FUNCTION count_room(q queue, kept room, messages bigint, bytes bigint) RETURNS room LANGUAGE plpgsql AS $$
DECLARE
    begun_ms bigint := now_ms();
    ended_ms bigint;
    held bigint;
BEGIN
    -- One statement has one snapshot: the notes that it removes are those of messages that it counts.
    WITH taken AS (DELETE FROM room_taken t WHERE t.queue_id = q.id AND t.transaction >= not_done(kept))
    SELECT coalesce(q.messages_max - count(*), 9223372036854775807),
        coalesce(q.bytes_max - coalesce(sum(octet_length(body)), 0), 9223372036854775807), count(*),
        pg_snapshot_xmin(pg_current_snapshot())
        INTO kept.messages, kept.bytes, held, kept.taken_from FROM stored(q.id);
    kept.queue_id := q.id;
    IF kept.number IS NULL AND held >= room_from() THEN
        kept.number := 1;
    ELSIF kept.number IS NULL THEN
        kept.taken_from := null; -- nothing is written down
    END IF;
    IF held >= room_exact_from() AND (kept.messages < messages OR kept.bytes < bytes) THEN
        ended_ms := now_ms();
        -- 90 s and not 60, which is how long is_exact relies on it, since the clock is read at different moments.
        PERFORM setval('posthaste.room_noted_until',
            greatest(ended_ms + 90000, pg_sequence_last_value('posthaste.room_noted_until')));
        IF (kept.counted_ms BETWEEN ended_ms - 80000 AND begun_ms) IS NOT TRUE THEN
            kept.noted_ms := ended_ms;
        END IF;
        kept.counted_ms := begun_ms;
    END IF;
    RETURN kept;
END $$;
COMMENT ON FUNCTION count_room(queue, room, bigint, bigint) IS
'The room of a queue, counted from what it holds. If the queue is large and has not the room that is wanted, messages that leave are noted from now on. Plan: room_taken_by_queue; as stored.';

CREATE OR REPLACE FUNCTION refused_for_room(op int, q queue, messages bigint, bytes bigint) RETURNS answer LANGUAGE plpgsql AS $$
DECLARE
    -- Both are settings of a middleware's transaction, which no client can change.
    -- The queue that this transaction asked about last, then the fields of its room: messages, bytes, number, and so on.
    known bigint[] := string_to_array(nullif(current_setting('posthaste.room', true), ''), ' ');
    -- The queues that were counted since messages last left any queue: to count them again would find no more room.
    looked_through text[] := string_to_array(current_setting('posthaste.full', true), ' ');
    kept room;
    written room;
    refused answer;
BEGIN
    IF known[1] = q.id THEN
        kept := ROW(q.id, known[4], known[2], known[3], known[5]::text::xid8, known[6], known[7]);
        written := kept;
    ELSE
        kept := room_of(q.id);
        kept.number := kept.number + 1;
        written := kept;
        IF kept.number IS NOT NULL THEN
            kept := less_taken(kept);
        END IF;
    END IF;
    IF kept.queue_id IS NULL
        OR (kept.messages < messages OR kept.bytes < bytes) AND (q.id::text = ANY(looked_through)) IS NOT TRUE THEN
        IF known[1] = q.id AND kept.number IS NOT NULL THEN
            kept := less_taken(kept);
        END IF;
        IF kept.queue_id IS NULL OR (kept.messages < messages OR kept.bytes < bytes) AND is_exact(kept) IS NOT TRUE THEN
            kept := count_room(q, kept, messages, bytes);
        END IF;
        PERFORM set_config('posthaste.full', concat_ws(' ', VARIADIC looked_through || q.id::text), true);
    END IF;
    IF kept.messages < messages THEN
        refused := refused(op, 'full_messages', q.messages_max);
    ELSIF kept.bytes < bytes THEN
        refused := refused(op, 'full_bytes', q.bytes_max);
    ELSE
        kept.messages := kept.messages - messages;
        kept.bytes := kept.bytes - bytes;
    END IF;
    IF kept.number IS NOT NULL AND kept IS DISTINCT FROM written THEN
        PERFORM write_room(kept);
    END IF;
    PERFORM set_config('posthaste.room',
        concat_ws(' ', q.id, kept.messages, kept.bytes, kept.number, kept.taken_from, kept.noted_ms, kept.counted_ms), true);
    RETURN refused;
END $$;
COMMENT ON FUNCTION refused_for_room(int, queue, bigint, bigint) IS
'Null if so much may be sent to a queue with limits, whose row is locked, else the refusal. Subtracts it from the room that is written down; counts the queue if that does not suffice and is not exact. Plan: as room_of, less_taken, write_room, count_room.';

-- What a transaction of an SQL client may still send to a queue, after its first question. Not a setting, since any client
-- may change settings. Of the rows of a transaction and queue the highest number is valid, as in `room`.
CREATE UNLOGGED TABLE room_beside (
    transaction xid8 NOT NULL,
    queue_id bigint NOT NULL,
    number bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (transaction, queue_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE room_beside IS 'What transactions that send without the lock of a queue''s row may still send to queues with limits.';

CREATE FUNCTION write_room_beside(queue bigint, new_number bigint, messages bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Only rows of this transaction: at REPEATABLE READ it would fail on a row that another one has removed meanwhile.
    DELETE FROM room_beside WHERE transaction = pg_current_xact_id() AND queue_id = queue AND number >= new_number - 1;
    INSERT INTO room_beside VALUES (pg_current_xact_id(), queue, new_number, messages, bytes);
END $$;
COMMENT ON FUNCTION write_room_beside(bigint, bigint, bigint, bigint) IS
'Writes what this transaction may still send to a queue, in place of the row before. Does not wait. Plan: room_beside_pkey.';

CREATE FUNCTION forget_room_beside(most int) RETURNS void LANGUAGE sql AS $$
    DELETE FROM room_beside WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM room_beside WHERE transaction < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY transaction, queue_id, number LIMIT most FOR UPDATE SKIP LOCKED));
    -- Of another cluster, where the database was dumped. A transaction to come must not find them.
    DELETE FROM room_beside WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM room_beside WHERE transaction >= pg_snapshot_xmax(pg_current_snapshot())
        ORDER BY transaction, queue_id, number LIMIT most FOR UPDATE SKIP LOCKED))
$$;
COMMENT ON FUNCTION forget_room_beside(int) IS
'Removes the rows of transactions that have ended, and those of transactions to come, at most so many of each. Plan: room_beside_pkey, twice; Tid Scans.';

CREATE FUNCTION refused_beside(op int, q queue, messages bigint, bytes bigint) RETURNS answer LANGUAGE plpgsql AS $$
DECLARE
    known room_beside;
    kept room;
BEGIN
    SELECT * INTO known FROM room_beside
        WHERE transaction = pg_current_xact_id() AND queue_id = q.id ORDER BY number DESC LIMIT 1;
    IF known.number IS NULL OR known.messages < messages OR known.bytes < bytes THEN
        kept := room_of(q.id);
        IF kept.number IS NOT NULL THEN
            SELECT least(kept.messages - coalesce(sum(t.messages), 0), 9223372036854775807),
                least(kept.bytes - coalesce(sum(t.bytes), 0), 9223372036854775807)
                INTO kept.messages, kept.bytes FROM room_taken t
                WHERE t.queue_id = q.id AND t.transaction >= not_done(kept);
        END IF;
        IF kept.number IS NULL OR (kept.messages < messages OR kept.bytes < bytes) AND is_exact(kept) IS NOT TRUE THEN
            SELECT coalesce(q.messages_max - s.messages, 9223372036854775807), coalesce(q.bytes_max - s.bytes, 9223372036854775807)
                INTO kept.messages, kept.bytes FROM stock(q.id) AS s;
        END IF;
        IF kept.messages < messages THEN
            RETURN refused(op, 'full_messages', q.messages_max);
        ELSIF kept.bytes < bytes THEN
            RETURN refused(op, 'full_bytes', q.bytes_max);
        END IF;
        known.messages := kept.messages;
        known.bytes := kept.bytes;
    END IF;
    PERFORM note_arrival(q.id, messages, bytes);
    PERFORM write_room_beside(q.id, coalesce(known.number, 0) + 1, known.messages - messages, known.bytes - bytes);
    RETURN null;
END $$;
COMMENT ON FUNCTION refused_beside(int, queue, bigint, bigint) IS
'Null if so much may be sent to a queue with limits, whose row is not locked, else the refusal. Concurrent transactions may together exceed a limit. Counts the queue at most once for many sends of a transaction. Plan: room_beside_pkey, backwards; as room_of, room_taken_by_queue; stock().';

CREATE FUNCTION refusal_beside(op int, q queue, sender int, recipient text, messages bigint, bytes bigint) RETURNS answer
LANGUAGE plpgsql AS $$
DECLARE
    unlimited queue := q;
    refused answer;
BEGIN
    unlimited.messages_max := null;
    unlimited.bytes_max := null;
    refused := refusal(op, unlimited, sender, recipient, messages, bytes);
    IF refused.kind IS NULL AND (q.messages_max IS NOT NULL OR q.bytes_max IS NOT NULL) THEN
        refused := refused_beside(op, q, messages, bytes);
    END IF;
    RETURN refused;
END $$;
COMMENT ON FUNCTION refusal_beside(int, queue, int, text, bigint, bigint) IS
'Why a message may not be sent, as refusal, for a transaction without the lock of the queue''s row; null if it may. Plan: as refusal, refused_beside.';

CREATE FUNCTION settle_rooms() RETURNS void LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    noted bigint;
    kept room;
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    FOR noted IN SELECT DISTINCT t.queue_id FROM room_taken t LOOP
        PERFORM FROM queue WHERE id = noted FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND AND EXISTS (SELECT FROM queue WHERE id = noted);
        kept := room_of(noted);
        IF kept.number IS NULL THEN
            DELETE FROM room_taken t WHERE t.queue_id = noted;
        ELSE
            kept.number := kept.number + 1;
            PERFORM write_room(less_taken(kept));
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION settle_rooms() IS
'Subtracts what was noted from the rooms of queues, also where no batch sends, and removes the notes for queues that have no room any more; to be called now and then. Passes over locked queues. Plan: reads all of room_taken_by_queue; queue_pkey, as room_of, less_taken and write_room for each queue.';

CREATE FUNCTION forget_room() RETURNS trigger LANGUAGE plpgsql SET search_path = posthaste, pg_temp AS $$
BEGIN
    DELETE FROM room WHERE queue_id = old.id;
    DELETE FROM room_taken WHERE queue_id = old.id;
    RETURN null;
END $$;
COMMENT ON FUNCTION forget_room() IS 'Removes the room of a queue whose limits have changed, which has to be counted again, or that was deleted. Plan: room_pkey, room_taken_by_queue.';

CREATE TRIGGER forget_room_of_changed AFTER UPDATE OF messages_max, bytes_max ON queue
    FOR EACH ROW EXECUTE FUNCTION forget_room();
CREATE TRIGGER forget_room_of_gone AFTER DELETE ON queue
    FOR EACH ROW WHEN (old.guarded) EXECUTE FUNCTION forget_room();
ALTER TABLE queue ENABLE ALWAYS TRIGGER forget_room_of_changed, ENABLE ALWAYS TRIGGER forget_room_of_gone;
