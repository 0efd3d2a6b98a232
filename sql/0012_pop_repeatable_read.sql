-- Pop strategy repeatable-read: delete the oldest message that the transaction's snapshot shows.
--
-- The caller's transaction is REPEATABLE READ. There a DELETE of a row that another transaction has deleted since raises
-- serialization_failure (40001) instead of finding nothing, and the caller must repeat the whole transaction. So this is
-- the only strategy in which each retry costs a round trip.

SET LOCAL search_path = posthaste;

CREATE FUNCTION pop_repeatable_read(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
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
        DELETE FROM message WHERE ring = head.part AND ctid = head.tid AND due_ms IS NULL RETURNING * INTO m;
        RETURN NEXT handed_out(op, m, queue_name);
        RETURN NEXT took();
        RETURN;
    END LOOP;
    -- A part that was truncated after the snapshot was taken looks empty, and so do messages that were put elsewhere then.
    IF EXISTS (SELECT FROM pg_class
        WHERE oid = ANY('{posthaste.message_0, posthaste.message_1, posthaste.message_aside}'::regclass[])
            AND relfilenode <> pg_relation_filenode(oid))
    THEN
        RAISE serialization_failure USING MESSAGE = 'a part of the table of messages has been truncated since the snapshot';
    END IF;
    RETURN NEXT found_nothing(op, queue_name, queue, sender);
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION pop_repeatable_read(bigint, int, int, text, bigint, int, int) IS
'POP by deleting in a REPEATABLE READ transaction, which the caller opens, and repeats after 40001; tries is ignored. Plan: queue_name_key; as heads; one Tid Scan; pg_class where it finds nothing.';
