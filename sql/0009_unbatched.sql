-- One request, one statement, one commit: what --batch 1 with a named pop strategy runs, for experiments.
--
-- This is how a queue in a database is usually written, without batches, and the setting in which the pop strategies of
-- the next files are measured. It uses the same tables as the batch, possibly at the same time as middlewares that batch,
-- so one rule differs: a batch appends to the ring under its queues' row locks, which would make such requests wait for
-- each other's commits. A request here takes no lock that another one needs, so the messages that it sends are kept
-- aside, where nothing relies on the order of commits.
--
-- A SEND locks its queue's row FOR KEY SHARE, which conflicts only with the deletion of that queue. A POP waits for the
-- row of one message at most, and holds no other lock meanwhile, so there is no deadlock.
--
-- This file has the plain forms of SEND, PEEK, QCREATE, QDELETE and QREADABLE; other requests go through apply.

SET LOCAL search_path = posthaste;

CREATE FUNCTION send_unbatched(given_ms bigint, op int, sender int, queue_name text, recipient int, content bytea)
RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    q queue;
    why answer;
BEGIN
    SELECT * INTO q FROM queue WHERE name = queue_name FOR KEY SHARE;
    IF q.id IS NULL THEN
        RETURN NEXT refused(op, 'no_queue');
        RETURN NEXT took();
        RETURN;
    END IF;
    IF q.guarded THEN
        why := refusal_beside(op, q, sender, recipient_named(recipient), 1, octet_length(content));
        IF why.kind IS NOT NULL THEN
            RETURN NEXT why;
            RETURN NEXT took();
            RETURN;
        END IF;
    END IF;
    RETURN NEXT ROW(op, 'i', put(at_ms, 2::smallint, sender, recipient, q, content, null, 0, null, 0), q.id,
        null, null, null, null, null, null, null, null, null, null, null, null, null)::answer;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION send_unbatched(bigint, int, int, text, int, bytea) IS
'SEND without options, kept aside; recipient 0: anyone. Plan: queue_name_key, one INSERT; as refusal_beside where the queue has limits, which requests side by side may overshoot.';

CREATE FUNCTION peek_unbatched(given_ms bigint, op int, reader int, queue_name text, sender int) RETURNS SETOF answer
LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    queue bigint := queue_named(queue_name);
BEGIN
    IF queue IS NULL AND queue_name IS NOT NULL THEN
        RETURN NEXT refused(op, 'no_queue');
    ELSE
        RETURN QUERY SELECT * FROM peek_one(op, at_ms, reader, queue, sender, false, false, 1);
    END IF;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION peek_unbatched(bigint, int, int, text, int) IS
'PEEK of one message; null for no queue or no sender named. Plan: queue_name_key; as heads.';

CREATE FUNCTION create_unbatched(op int) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    RETURN NEXT numbered(op, add_queue(null));
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION create_unbatched(int) IS 'QCREATE without a name. Plan: as add_queue.';

CREATE FUNCTION delete_unbatched(op int, queue_name text) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    queue bigint;
    tids tid[];
    removed bigint := 0;
BEGIN
    SELECT q.id INTO queue FROM posthaste.queue q WHERE q.name = queue_name FOR UPDATE;
    IF queue IS NULL THEN
        RETURN NEXT refused(op, 'no_queue');
        RETURN NEXT took();
        RETURN;
    END IF;
    IF NOT is_empty(queue, newest_id()) THEN
        PERFORM refuse_if_large(queue);
    END IF;
    -- A message that changes its state between two statements is removed in the next round. Ranges and orders as in `stored`.
    WHILE NOT is_empty(queue, newest_id()) LOOP
        FOR p IN 0..2 LOOP
            tids := ARRAY(SELECT ctid FROM message WHERE ring = p AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
                ORDER BY queue_id, sender_id, recipient_id, place FOR UPDATE);
            removed := removed + remove_rows(p, tids);
        END LOOP;
        tids := ARRAY(SELECT ctid FROM message WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NOT NULL
            ORDER BY queue_id, id FOR UPDATE);
        removed := removed + remove_rows(2, tids);
    END LOOP;
    DELETE FROM posthaste.queue q WHERE q.id = queue;
    RETURN NEXT numbered(op, removed);
    RETURN NEXT gone(queue);
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION delete_unbatched(int, text) IS
'QDELETE, which waits for all transactions that are sending to the queue or taking from it. Plan: queue_name_key; message_by_both on each part; message_aside_by_queue_due; as remove_rows.';

CREATE FUNCTION readable_unbatched(given_ms bigint, op int, reader int) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    RETURN QUERY SELECT * FROM readable_step(coalesce(given_ms, now_ms()), ARRAY[op], ARRAY[reader], noted_floor(), 0, '{}', '{}',
        '{}');
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION readable_unbatched(bigint, int, int) IS 'QREADABLE. Plan: as readable_step.';

-- What the strategies share ----------------------------------------------------------------------------------------

CREATE FUNCTION handed_out(op int, m message, queue_name text) RETURNS answer LANGUAGE plpgsql AS $$
BEGIN
    IF leaving_is_noted() THEN
        PERFORM note_departure(m.queue_id, octet_length(m.body));
    END IF;
    m.deliveries := m.deliveries + 1;
    RETURN shown(op, m, coalesce(queue_name, (SELECT q.name FROM queue q WHERE q.id = m.queue_id)));
END $$;
COMMENT ON FUNCTION handed_out(int, message, text) IS
'The answer to a POP that has just removed this message; notes that the message has left. Plan: queue_pkey where the reader named no queue; as note_departure.';

CREATE FUNCTION found_nothing(op int, queue_name text, queue bigint, sender int) RETURNS answer LANGUAGE plpgsql AS $$
BEGIN
    IF queue_name IS NOT NULL AND coalesce(queue_named(queue_name) <> queue, true) THEN
        RETURN refused(op, 'no_queue');
    END IF;
    RETURN nothing(op, queue, sender);
END $$;
COMMENT ON FUNCTION found_nothing(int, text, bigint, int) IS
'The answer to a POP without a message: the queue that it names does not exist, or holds nothing for the reader. Plan: queue_name_key.';
