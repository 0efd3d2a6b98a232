-- Pop strategy for-update: lock the oldest message, waiting for its row lock if necessary, then delete it.
--
-- The wait is the same as in delete-retry, but happens before the row is changed. A reader whose message is gone after
-- the wait looks again.

SET LOCAL search_path = posthaste;

CREATE FUNCTION pop_for_update(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    queue bigint := queue_awaited(queue_name, awaited);
    head record;
    m message;
BEGIN
    WHILE queue IS NOT NULL OR queue_name IS NULL LOOP
        SELECT h.part, h.tid, h.home INTO head
            FROM heads(at_ms, reader, queue, sender, false, false, 1) AS h;
        EXIT WHEN head.tid IS NULL;
        PERFORM FROM message WHERE ring = head.part AND ctid = head.tid AND queue_id = head.home AND due_ms IS NULL FOR UPDATE;
        IF FOUND THEN
            DELETE FROM message WHERE ring = head.part AND ctid = head.tid AND due_ms IS NULL RETURNING * INTO m;
        END IF;
        IF FOUND THEN
            RETURN NEXT handed_out(op, m, queue_name);
            RETURN NEXT took();
            RETURN;
        END IF;
        tries := tries - 1;
        IF tries = 0 THEN
            RETURN NEXT refused(op, 'lost');
            RETURN NEXT took();
            RETURN;
        END IF;
    END LOOP;
    RETURN NEXT found_nothing(op, queue_name, queue, sender);
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION pop_for_update(bigint, int, int, text, bigint, int, int) IS
'POP by SELECT … FOR UPDATE: the transaction that locks the row gets the message. Answers `lost` after so many tries; null: no limit. Plan: queue_name_key; as heads; two Tid Scans for each try.';
