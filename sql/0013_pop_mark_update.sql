-- Pop strategy mark-update: mark the oldest message as taken, and leave its removal to upkeep.
--
-- A marked message belongs to no queue (0), and is due and expires at the time when it was taken. So no read and no count
-- sees it, and the next tick removes it like any expired message, but does not count it as one. Rows of the ring, which
-- only middlewares that batch write, are never updated, not even here: they are deleted at once.

SET LOCAL search_path = posthaste;

CREATE FUNCTION pop_mark_update(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
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
        IF head.part = 2 THEN
            UPDATE message SET queue_id = 0, due_ms = at_ms, expires_ms = at_ms
                WHERE ring = 2 AND ctid = head.tid AND queue_id = head.home AND due_ms IS NULL RETURNING * INTO m;
        ELSE
            DELETE FROM message WHERE ring = head.part AND ctid = head.tid AND due_ms IS NULL RETURNING * INTO m;
        END IF;
        IF FOUND THEN
            m.queue_id := head.home;
            m.due_ms := null;
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
COMMENT ON FUNCTION pop_mark_update(bigint, int, int, text, bigint, int, int) IS
'POP by marking: the transaction that updates the row gets the message; tick() removes it later. Answers `lost` after so many tries; null: no limit. Plan: queue_name_key; as heads; one Tid Scan for each try.';
