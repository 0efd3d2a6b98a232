-- Room: what may still be sent to a queue with limits, without counting it for every batch.
--
-- MAXMSGS and MAXBYTES ask how much a queue holds, and the database knows that only by counting. A kept count would have to be
-- changed by whoever adds or takes a message: a row that all of them wait for, open transactions of SQL clients included.
-- So what is kept is a bound that only senders move. When a queue is counted, the room it has left is written down; whoever sends takes a part
-- of it, and whoever takes messages says nothing. The true room is never smaller than the one written down. While that
-- suffices nothing is counted; when it does not, the queue is counted anew, so a refusal is always exact. A queue that
-- holds half of what it may is counted once in half of what it may.
--
-- Batches send under the queue's row lock, one after the other. Each writes what it leaves as a further row of `room`,
-- of which only the highest number is true. No row is updated, and the lookup is the first entry of an index read from
-- its end, so dead rows that somebody's open transaction keeps are not walked.
--
-- What comes into a queue beside that lock (SQL clients, dead letters, redrive, --batch 1) is noted in `room_taken`, which
-- waits for nobody; the next batch adds it up. Whoever has not committed when a queue is counted is not counted, as ever.
--
-- A small queue is counted in less time than this takes, and is.

SET LOCAL search_path = posthaste;

CREATE TABLE room (
    queue_id bigint NOT NULL,
    number bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (queue_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE room IS 'What may at least be sent to large queues with limits; of a queue the highest number is true.';

CREATE TABLE room_taken (
    queue_id bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE room_taken REPLICA IDENTITY FULL;
CREATE INDEX room_taken_by_queue ON room_taken (queue_id);
COMMENT ON TABLE room_taken IS 'What came into such queues beside their lock, until the next batch takes it from their room.';

CREATE FUNCTION room_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 200::bigint $$;
COMMENT ON FUNCTION room_from() IS 'Messages from which on it costs less to keep the room of a queue than to count the queue for every batch.';

CREATE FUNCTION room_of(queue bigint) RETURNS room LANGUAGE sql AS $$
    SELECT * FROM room WHERE queue_id = queue ORDER BY number DESC LIMIT 1
$$;
COMMENT ON FUNCTION room_of(bigint) IS 'The room that is written down. Plan: room_pkey, backwards.';

CREATE FUNCTION note_arrival(queue bigint, messages bigint, bytes bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO room_taken SELECT note_arrival.queue, note_arrival.messages, note_arrival.bytes
        WHERE (SELECT number FROM room_of(note_arrival.queue)) IS NOT NULL
$$;
COMMENT ON FUNCTION note_arrival(bigint, bigint, bigint) IS
'Takes what comes into a queue beside its lock from its room, if that is written down. Waits for nobody. Plan: as room_of.';

CREATE FUNCTION write_room(queue bigint, new_number bigint, messages bigint, bytes bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM room WHERE queue_id = queue AND number >= new_number - 1;
    INSERT INTO room VALUES (queue, new_number, messages, bytes);
END $$;
COMMENT ON FUNCTION write_room(bigint, bigint, bigint, bigint) IS
'The room of a queue whose row is locked, in place of the one before. Plan: room_pkey.';

CREATE OR REPLACE FUNCTION refused_for_room(op int, q queue, messages bigint, bytes bigint) RETURNS answer LANGUAGE plpgsql AS $$
DECLARE
    -- Settings of a middleware's transaction, in which no client has a say.
    -- The queue that was looked at last in this transaction, what may still be sent to it, and the number of its room.
    known bigint[] := string_to_array(nullif(current_setting('posthaste.room', true), ''), ' ');
    -- The queues that were counted since something left any: to count them again would find no more room.
    counted text[] := string_to_array(current_setting('posthaste.full', true), ' ');
    kept room;
    held bigint;
    refused answer;
BEGIN
    IF known[1] = q.id THEN
        kept := ROW(q.id, known[4], known[2], known[3]);
    ELSE
        kept := room_of(q.id);
        IF kept.number IS NOT NULL THEN
            kept.number := kept.number + 1;
            WITH taken AS (DELETE FROM room_taken t WHERE t.queue_id = q.id RETURNING t.messages, t.bytes)
            SELECT kept.messages - coalesce(sum(t.messages), 0), kept.bytes - coalesce(sum(t.bytes), 0)
                INTO kept.messages, kept.bytes FROM taken t;
        END IF;
    END IF;
    IF kept.queue_id IS NULL
        OR (kept.messages < messages OR kept.bytes < bytes) AND (q.id::text = ANY(counted)) IS NOT TRUE THEN
        -- Before the count, so that what arrives in between is taken from the room twice rather than never.
        DELETE FROM room_taken t WHERE t.queue_id = q.id;
        SELECT coalesce(q.messages_max - s.messages, 9223372036854775807), coalesce(q.bytes_max - s.bytes, 9223372036854775807),
            s.messages INTO kept.messages, kept.bytes, held FROM stock(q.id) AS s;
        IF kept.number IS NULL AND held >= room_from() THEN
            kept.number := 1;
        END IF;
        PERFORM set_config('posthaste.full', concat_ws(' ', VARIADIC counted || q.id::text), true);
    END IF;
    IF kept.messages < messages THEN
        refused := refused(op, 'full_messages', q.messages_max);
    ELSIF kept.bytes < bytes THEN
        refused := refused(op, 'full_bytes', q.bytes_max);
    ELSE
        kept.messages := kept.messages - messages;
        kept.bytes := kept.bytes - bytes;
    END IF;
    IF kept.number IS NOT NULL THEN
        PERFORM write_room(q.id, kept.number, kept.messages, kept.bytes);
    END IF;
    PERFORM set_config('posthaste.room', concat_ws(' ', q.id, kept.messages, kept.bytes, kept.number), true);
    RETURN refused;
END $$;
COMMENT ON FUNCTION refused_for_room(int, queue, bigint, bigint) IS
'Null when so much may be sent to a queue with limits whose row is locked, else the refusal. Takes it from the room that is written down; counts what the queue holds when that does not suffice. Plan: as room_of, room_taken_by_queue; stock().';

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
            SELECT kept.messages - coalesce(sum(t.messages), 0), kept.bytes - coalesce(sum(t.bytes), 0)
                INTO kept.messages, kept.bytes FROM room_taken t WHERE t.queue_id = q.id;
        END IF;
        IF kept.number IS NULL OR kept.messages < messages OR kept.bytes < bytes THEN
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
