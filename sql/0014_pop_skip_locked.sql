-- Pop strategy skip-locked: pass over messages that other transactions are taking, and take the oldest of the rest.
--
-- No transaction waits for another. After messages were passed over, twice as many are looked at, so that a POP finds
-- nothing only if other transactions are taking every message.

SET LOCAL search_path = posthaste;

CREATE FUNCTION pop_skip_locked(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    queue bigint := queue_awaited(queue_name, awaited);
    head record;
    m message;
    wanted bigint;
    seen bigint := 0;
BEGIN
    WHILE queue IS NOT NULL OR queue_name IS NULL LOOP
        wanted := 1 + 2 * seen;
        seen := 0;
        FOR head IN SELECT h.part, h.tid FROM heads(at_ms, reader, queue, sender, false, false, wanted) AS h ORDER BY h.place
        LOOP
            seen := seen + 1;
            m := take(at_ms, reader, head.part, head.tid, null);
            IF m.id IS NOT NULL THEN
                IF leaving_is_noted() THEN
                    PERFORM note_departure(m.queue_id, octet_length(m.body));
                END IF;
                RETURN NEXT shown(op, m, coalesce(queue_name, (SELECT q.name FROM posthaste.queue q WHERE q.id = m.queue_id)));
                RETURN NEXT took();
                RETURN;
            END IF;
        END LOOP;
        EXIT WHEN seen < wanted;
    END LOOP;
    RETURN NEXT found_nothing(op, queue_name, queue, sender);
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION pop_skip_locked(bigint, int, int, text, bigint, int, int) IS
'POP by FOR UPDATE SKIP LOCKED: the transaction that locks the row gets the message, and others take the next one. None has to start over, so tries is ignored. Plan: queue_name_key; as heads; one Tid Scan for each message looked at; as note_departure.';
