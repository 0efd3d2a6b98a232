-- Large queues are emptied in parts, and many dead letters are redriven in parts.
--
-- To remove millions of messages takes minutes. One transaction would hold the lock of the queue's row for all that time,
-- and all users of the queue would wait. So a middleware's QPURGE or QDELETE of a large queue fails, and its batch is
-- rolled back; the middleware sweeps the queue, a part in each transaction, and then repeats the request for what is left.
-- A QREDRIVE of many letters fails likewise, and is then done in parts. Requests that are too much together, though each
-- may be done at once, fail in another way: they go in several batches.

SET LOCAL search_path = posthaste;

CREATE FUNCTION emptied_at_once() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 50000 $$;
COMMENT ON FUNCTION emptied_at_once() IS
'A queue with more messages than this is large. To remove so many takes about half a second.';

CREATE FUNCTION refuse_large(queue bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'PHBIG', MESSAGE = 'the queue holds too many messages for one transaction',
        DETAIL = (SELECT q.name FROM posthaste.queue q WHERE q.id = refuse_large.queue);
END $$;
COMMENT ON FUNCTION refuse_large(bigint) IS 'Fails with PHBIG; DETAIL is the queue''s name. Plan: queue_pkey.';

CREATE FUNCTION count_removal(queue bigint, messages bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- How many this transaction, which is a middleware's, removes so far.
    so_far bigint := coalesce(nullif(current_setting('posthaste.removed', true), ''), '0')::bigint + messages;
BEGIN
    IF messages > emptied_at_once() THEN
        PERFORM refuse_large(queue);
    ELSIF so_far > emptied_at_once() THEN
        RAISE EXCEPTION USING ERRCODE = 'PHSUM', MESSAGE = 'the requests of this transaction remove too many messages together',
            DETAIL = (SELECT q.name FROM posthaste.queue q WHERE q.id = count_removal.queue);
    END IF;
    PERFORM set_config('posthaste.removed', so_far::text, true);
END $$;
COMMENT ON FUNCTION count_removal(bigint, bigint) IS
'Counts messages that are going to be removed from a queue: fails if they are more than emptied_at_once, as refuse_large, or if they are together with what this transaction has removed before, with PHSUM; DETAIL is the queue''s name. Plan: queue_pkey.';

CREATE FUNCTION refuse_if_large(queue bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE held bigint;
BEGIN
    -- Ranges and orders as in `stored`.
    held := (SELECT count(*) FROM (
            SELECT FROM message WHERE queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
            ORDER BY queue_id, sender_id, recipient_id, place LIMIT emptied_at_once() + 1) AS ready)
        + (SELECT count(*) FROM (
            SELECT FROM message WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NOT NULL
            ORDER BY queue_id, id LIMIT emptied_at_once() + 1) AS due);
    PERFORM count_removal(queue, held);
END $$;
COMMENT ON FUNCTION refuse_if_large(bigint) IS
'Fails if a queue holds more messages than this transaction may still remove. Plan: message_by_both on each part; message_aside_by_queue_due; as refuse_large.';

CREATE FUNCTION sweep(queue_name text, INOUT part int, INOUT sender int, INOUT recipient int, INOUT place bigint, most int,
    OUT removed int) LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    home bigint;
    m record;
    tids tid[] := '{}';
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    removed := 0;
    PERFORM wait_for_queue(queue_name);
    SELECT q.id INTO home FROM queue q WHERE q.name = queue_name FOR NO KEY UPDATE;
    IF home IS NULL THEN
        part := null;
    ELSIF part < 3 THEN
        FOR m IN SELECT ctid AS tid, sender_id, recipient_id, message.place FROM message
            WHERE ring = part AND due_ms IS NULL AND queue_id >= home AND queue_id <= home
                AND (queue_id, sender_id, recipient_id, message.place) > (home, sender, recipient, sweep.place)
            ORDER BY queue_id, sender_id, recipient_id, message.place LIMIT most FOR UPDATE SKIP LOCKED
        LOOP
            removed := removed + 1;
            tids[removed] := m.tid;
        END LOOP;
        IF removed > 0 THEN
            sender := m.sender_id;
            recipient := m.recipient_id;
            place := m.place;
            PERFORM remove_rows(part, tids);
        END IF;
    ELSE
        FOR m IN SELECT ctid AS tid, id FROM message
            WHERE ring = 2 AND due_ms IS NOT NULL AND queue_id >= home AND queue_id <= home
                AND (queue_id, id) > (home, sweep.place)
            ORDER BY queue_id, id LIMIT most FOR UPDATE SKIP LOCKED
        LOOP
            removed := removed + 1;
            tids[removed] := m.tid;
        END LOOP;
        IF removed > 0 THEN
            place := m.id;
            PERFORM remove_rows(2, tids);
        END IF;
    END IF;
    IF removed < most THEN
        part := nullif(part, 3) + 1;
        sender := 0;
        recipient := 0;
        place := 0;
    END IF;
END $$;
COMMENT ON FUNCTION sweep(text, int, int, int, bigint, int) IS
'Removes at most so many messages of a queue, and returns how many and where to continue: parts 0 to 2 are the ready messages in these parts of the table, 3 the leased and delayed ones; null: that was all. To begin: 0, 0, 0, 0. Passes over locked messages. A call does not walk what earlier calls have removed. Waits for the queue as wait_for_queue. Plan: queue_name_key; message_by_both on one part, or message_aside_by_queue_due; Tid Scan.';

CREATE FUNCTION redrive_some(from_name text, to_name text, INOUT part int, INOUT sender int, INOUT recipient int, INOUT place bigint,
    OUT moved int, OUT missing text) LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    from_queue bigint;
    to_queue bigint;
    letters tid[];
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    moved := 0;
    -- In the order in which a batch locks them; least and greatest ignore a null.
    PERFORM wait_for_queue(least(from_name COLLATE "C", to_name));
    PERFORM wait_for_queue(greatest(from_name COLLATE "C", to_name));
    from_queue := queue_named(from_name);
    to_queue := queue_named(to_name);
    IF from_queue IS NULL THEN
        missing := from_name;
    ELSIF to_queue IS NULL THEN
        missing := to_name;
    END IF;
    IF missing IS NOT NULL THEN
        part := null;
        RETURN;
    END IF;
    PERFORM begin_move();
    SELECT l.part, l.sender, l.recipient, l.place, l.letters INTO part, sender, recipient, place, letters
        FROM letters_after(from_queue, part, sender, recipient, place) AS l;
    SELECT coalesce(sum(r.number) FILTER (WHERE r.kind = 'i'), 0) INTO moved FROM redrive_letters(letters, to_queue) AS r;
    IF moved > 0 THEN
        PERFORM tell_news(0, '*');
    END IF;
END $$;
COMMENT ON FUNCTION redrive_some(text, text, int, int, int, bigint) IS
'QREDRIVE of the next letters, at most redriven_at_once: returns how many were moved and where to continue, as letters_after. Moves nothing if one of the queues has been deleted, whose name is missing then. Waits for the queues as wait_for_queue. Plan: queue_name_key; as letters_after, redrive_letters, tell_news.';
