-- Room: what may still be sent to a queue with limits, without counting it for every batch.
--
-- MAXMSGS and MAXBYTES ask how much a queue holds, and the database knows that only by counting. A kept count would have to be
-- changed by whoever adds or takes a message: a row that all of them wait for, open transactions of SQL clients included.
-- So what is kept is a bound that only senders move. When a queue is counted, the room it has left is written down; whoever sends takes a part
-- of it, and whoever takes messages says nothing. The true room is never smaller than the one written down. While that
-- suffices nothing is counted; when it does not, the queue is counted anew, so a refusal is exact. A queue that
-- holds half of what it may is counted once in half of what it may.
--
-- Batches send under the queue's row lock, one after the other. Each writes what it leaves as a further row of `room`,
-- of which only the highest number is true. No row is updated, and the lookup is the first entry of an index read from
-- its end, so dead rows that somebody's open transaction keeps are not walked.
--
-- What comes into a queue beside that lock (SQL clients, dead letters, redrive, --batch 1) is noted in `room_taken`, which
-- waits for nobody; the next batch adds it up, and remembers which transactions are done with, so as not to walk their dead rows
-- again. Whoever has not committed when a queue is counted is not counted, as ever.
--
-- A queue that stays full would be counted by every batch that sends there. So from when it is found full on, what leaves is
-- noted too, and what is written down is no bound but the room itself. Whoever took a message just before may have noted
-- nothing and not committed: so it is relied on only after a count that began a second later. What was taken by a transaction that
-- was open for longer, and whatever else was not noted, is found out by the next count, once in a minute.
--
-- A small queue is counted in less time than this takes, and is.

SET LOCAL search_path = posthaste;

CREATE TABLE room (
    queue_id bigint NOT NULL,
    number bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    -- What transactions before this one have noted is done with.
    taken_from xid8 NOT NULL,
    -- Since when what leaves is noted too; when the queue was counted last. Null: nothing that leaves is noted.
    noted_ms bigint,
    counted_ms bigint,
    PRIMARY KEY (queue_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE room IS 'What may at least be sent to large queues with limits; of a queue the highest number is true.';

CREATE TABLE room_taken (
    queue_id bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE room_taken REPLICA IDENTITY FULL;
CREATE INDEX room_taken_by_queue ON room_taken (queue_id, transaction);
COMMENT ON TABLE room_taken IS 'What came into such queues beside their lock, and less than nothing for what left a full one, until the next batch takes it from their room.';

-- Up to when what leaves is noted. A sequence, because it can be read without a statement, and because everybody sees at once what is set.
CREATE SEQUENCE room_noted_until MINVALUE 0;

CREATE FUNCTION room_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 200::bigint $$;
COMMENT ON FUNCTION room_from() IS 'Messages from which on it costs less to keep the room of a queue than to count the queue for every batch.';

CREATE FUNCTION room_exact_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 1000::bigint $$;
COMMENT ON FUNCTION room_exact_from() IS 'Messages from which on it costs less to note what leaves a full queue than to count it for every batch.';

-- PL/pgSQL, here and below, whose plans are kept: in SQL they would be planned anew for each message.
CREATE FUNCTION room_of(queue bigint) RETURNS room LANGUAGE plpgsql AS $$
DECLARE kept room;
BEGIN
    SELECT * INTO kept FROM room WHERE queue_id = queue ORDER BY number DESC LIMIT 1;
    RETURN kept;
END $$;
COMMENT ON FUNCTION room_of(bigint) IS 'The room that is written down. Plan: room_pkey, backwards.';

CREATE FUNCTION note_arrival(queue bigint, messages bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (room_of(queue)).number IS NOT NULL THEN
        INSERT INTO room_taken VALUES (queue, messages, bytes);
    END IF;
END $$;
COMMENT ON FUNCTION note_arrival(bigint, bigint, bigint) IS
'Takes what comes into a queue beside its lock from its room, if that is written down. Waits for nobody. Plan: as room_of.';

CREATE FUNCTION leaving_is_noted() RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(pg_sequence_last_value('posthaste.room_noted_until') > now_ms(), false)
$$;
COMMENT ON FUNCTION leaving_is_noted() IS 'Whether some queue is full, and whoever removes messages has to call note_departure or note_departures. Inlined.';

CREATE FUNCTION note_departure(queue bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM note_arrival(queue, -1, -bytes);
END $$;
COMMENT ON FUNCTION note_departure(bigint, bigint) IS
'Gives back to the room of a queue what a message took, if that is written down. Waits for nobody. Plan: as note_arrival.';

CREATE FUNCTION weight(part int, tids tid[]) RETURNS TABLE (queue_id bigint, messages bigint, bytes bigint) LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN QUERY SELECT m.queue_id, count(*), sum(octet_length(m.body))::bigint FROM message m
        WHERE m.ring = part AND m.ctid = ANY(tids) GROUP BY m.queue_id;
END $$;
COMMENT ON FUNCTION weight(int, tid[]) IS 'What these rows are in the room of their queues. Plan: a Tid Scan, which reads lengths and no bodies.';

-- Whoever removes rows by where they are has index scans switched off.
CREATE FUNCTION note_departures(part int, tids tid[]) RETURNS void LANGUAGE plpgsql
SET enable_indexscan = on SET enable_indexonlyscan = on AS $$
BEGIN
    PERFORM note_arrival(w.queue_id, -w.messages, -w.bytes) FROM weight(part, tids) AS w;
END $$;
COMMENT ON FUNCTION note_departures(int, tid[]) IS
'The same for rows that are locked and about to be removed. Plan: as weight; as note_arrival for each queue.';

CREATE FUNCTION write_room(new room) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM room WHERE queue_id = new.queue_id AND number >= new.number - 1;
    INSERT INTO room SELECT (new).*;
END $$;
COMMENT ON FUNCTION write_room(room) IS
'The room of a queue whose row is locked, in place of the one before. Plan: room_pkey.';

CREATE FUNCTION not_done(kept room) RETURNS xid8 LANGUAGE sql STABLE AS $$
    -- Where the database was restored into another cluster, transactions have begun anew.
    SELECT CASE WHEN (kept).taken_from <= pg_snapshot_xmin(pg_current_snapshot()) THEN (kept).taken_from ELSE '0'::xid8 END
$$;
COMMENT ON FUNCTION not_done(room) IS 'The first transaction whose notes a room may not know. Inlined.';

CREATE FUNCTION less_taken(kept room) RETURNS room LANGUAGE plpgsql AS $$
BEGIN
    -- A limit that is not set leaves the most that there can be, and what leaves may not add to it.
    WITH taken AS (DELETE FROM room_taken t WHERE t.queue_id = kept.queue_id AND t.transaction >= not_done(kept)
        RETURNING t.messages, t.bytes)
    SELECT least(kept.messages - coalesce(sum(t.messages), 0), 9223372036854775807),
        least(kept.bytes - coalesce(sum(t.bytes), 0), 9223372036854775807),
        CASE WHEN count(*) > 0 THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE kept.taken_from END
        INTO kept.messages, kept.bytes, kept.taken_from FROM taken t;
    RETURN kept;
END $$;
COMMENT ON FUNCTION less_taken(room) IS
'A room without what was noted since it was written down, which is noted no more. Plan: room_taken_by_queue.';

CREATE FUNCTION is_exact(kept room) RETURNS boolean LANGUAGE sql AS $$
    SELECT (kept).counted_ms BETWEEN greatest((kept).noted_ms + 1000, now_ms() - 60000) AND now_ms()
$$;
COMMENT ON FUNCTION is_exact(room) IS 'Whether a room is no bound but all there is: nothing has left that was not noted. Inlined.';

CREATE FUNCTION count_room(q queue, kept room, messages bigint, bytes bigint) RETURNS room LANGUAGE plpgsql AS $$
DECLARE
    begun_ms bigint := now_ms();
    ended_ms bigint;
    held bigint;
BEGIN
    -- One statement, so that what is counted is what is noted no more.
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
        -- Longer than it is relied on, since clocks are not read at one moment.
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
'The room of a queue by counting what it holds. Where it is large and does not have what is wanted, what leaves is noted from now on. Plan: room_taken_by_queue; as stored.';

CREATE OR REPLACE FUNCTION refused_for_room(op int, q queue, messages bigint, bytes bigint) RETURNS answer LANGUAGE plpgsql AS $$
DECLARE
    -- Settings of a middleware's transaction, in which no client has a say.
    -- The queue that was looked at last in this transaction, what may still be sent to it, and of its room number, transaction and times.
    known bigint[] := string_to_array(nullif(current_setting('posthaste.room', true), ''), ' ');
    -- The queues that were looked through since something left any: to do so again would find no more room.
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
'Null when so much may be sent to a queue with limits whose row is locked, else the refusal. Takes it from the room that is written down; counts what the queue holds when that does not suffice and may be less than there is. Plan: as room_of, less_taken, write_room, count_room.';

-- What a transaction of an SQL client may still send, once it has asked. In a table and not in a setting, for anybody may change those.
-- Of a transaction and queue the highest number is true, as in `room`.
CREATE UNLOGGED TABLE room_beside (
    transaction xid8 NOT NULL,
    queue_id bigint NOT NULL,
    number bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (transaction, queue_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE room_beside IS 'What may still be sent to queues with limits by transactions that send without their lock.';

CREATE FUNCTION write_room_beside(queue bigint, new_number bigint, messages bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- No row of another transaction: with a snapshot of its own this one would fail where that row has gone meanwhile.
    DELETE FROM room_beside WHERE transaction = pg_current_xact_id() AND queue_id = queue AND number >= new_number - 1;
    INSERT INTO room_beside VALUES (pg_current_xact_id(), queue, new_number, messages, bytes);
END $$;
COMMENT ON FUNCTION write_room_beside(bigint, bigint, bigint, bigint) IS
'What this transaction may still send to a queue, in place of the number before. Waits for nobody. Plan: room_beside_pkey.';

CREATE FUNCTION forget_room_beside(most int) RETURNS void LANGUAGE sql AS $$
    DELETE FROM room_beside WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM room_beside WHERE transaction < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY transaction, queue_id, number LIMIT most FOR UPDATE SKIP LOCKED))
$$;
COMMENT ON FUNCTION forget_room_beside(int) IS
'Removes what transactions have left behind that are over, at most so many rows. Plan: room_beside_pkey; one Tid Scan.';

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
'The same for who sends without that lock, and so may overshoot together with others; counts but for many sends of a transaction once. Plan: room_beside_pkey, backwards; as room_of, room_taken_by_queue; stock().';

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
'Why a message may not be sent, for who sends without the lock of the queue''s row. As refusal. Plan: as refusal, refused_beside.';

CREATE FUNCTION settle_rooms() RETURNS void LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    noted bigint;
    kept room;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
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
'Takes what was noted from the rooms of queues to which no batch sends, and forgets what was noted for queues that have none any more; to be called now and then. Passes over queues that are locked. Plan: reads all of room_taken_by_queue; queue_pkey, as room_of, less_taken and write_room for each queue.';

CREATE FUNCTION forget_room() RETURNS trigger LANGUAGE plpgsql SET search_path = posthaste, pg_temp AS $$
BEGIN
    DELETE FROM room WHERE queue_id = old.id;
    DELETE FROM room_taken WHERE queue_id = old.id;
    RETURN null;
END $$;
COMMENT ON FUNCTION forget_room() IS 'A queue with other limits has to be counted anew; one that is gone has no room. Plan: room_pkey, room_taken_by_queue.';

CREATE TRIGGER forget_room_of_changed AFTER UPDATE OF messages_max, bytes_max ON queue
    FOR EACH ROW EXECUTE FUNCTION forget_room();
CREATE TRIGGER forget_room_of_gone AFTER DELETE ON queue
    FOR EACH ROW WHEN (old.guarded) EXECUTE FUNCTION forget_room();
ALTER TABLE queue ENABLE ALWAYS TRIGGER forget_room_of_changed, ENABLE ALWAYS TRIGGER forget_room_of_gone;
