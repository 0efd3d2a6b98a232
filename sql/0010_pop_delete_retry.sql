-- Pop strategy delete-retry: delete the oldest message, and look again if another transaction was faster.
--
-- Readers that try to delete the same message wait for the commit of the first; then the others find nothing to delete
-- and start over. This is correct, and slower with every further reader.

SET LOCAL search_path = posthaste;

CREATE FUNCTION pop_delete_retry(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
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
        DELETE FROM message WHERE ring = head.part AND ctid = head.tid AND queue_id = head.home AND due_ms IS NULL
            RETURNING * INTO m;
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
COMMENT ON FUNCTION pop_delete_retry(bigint, int, int, text, bigint, int, int) IS
'POP by deleting: the transaction that deletes the row gets the message. Answers `lost` after so many tries; null: no limit. Plan: queue_name_key; as heads; one Tid Scan for each try.';
