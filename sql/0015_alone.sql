-- Plain requests that are alone in their step, or in their batch.
--
-- Most of the cost of a step is its setup, and with one request nothing has to be assigned: done as here, a POP alone in
-- its step costs half as much. A batch of one request does not go through `apply` at all, whose steps and columns cost as
-- much as the request. Rules and locks are those of a batch.

SET LOCAL search_path = posthaste;

CREATE FUNCTION first_head(at_ms bigint, reader int, queue bigint, sender int, any_floor bigint, own_floor bigint)
RETURNS lane_row LANGUAGE plpgsql AS $$
DECLARE head lane_row;
BEGIN
    IF sender IS NULL THEN
        SELECT * INTO head FROM (
            SELECT * FROM queue_lane(at_ms, 0, queue, any_floor, 1)
            UNION ALL SELECT * FROM queue_lane(at_ms, reader, queue, own_floor, 1)) AS h ORDER BY h.place LIMIT 1;
    ELSIF queue IS NOT NULL THEN
        SELECT * INTO head FROM (
            SELECT * FROM both_lane(at_ms, 0, queue, sender, any_floor, 1)
            UNION ALL SELECT * FROM both_lane(at_ms, reader, queue, sender, own_floor, 1)) AS h ORDER BY h.place LIMIT 1;
    ELSE
        SELECT * INTO head FROM (
            SELECT * FROM sender_lane(at_ms, 0, sender, any_floor, 1)
            UNION ALL SELECT * FROM sender_lane(at_ms, reader, sender, own_floor, 1)) AS h ORDER BY h.place LIMIT 1;
    END IF;
    RETURN head;
END $$;
COMMENT ON FUNCTION first_head(bigint, int, bigint, int, bigint, bigint) IS
'Where the first message is that a reader may get. Null as queue or sender: none is named. Plan: the lanes''.';

CREATE FUNCTION take_first(op int, at_ms bigint, reader int, queue bigint, sender int, lease_ms bigint, any_floor bigint,
    own_floor bigint) RETURNS answer LANGUAGE plpgsql AS $$
DECLARE
    head lane_row;
    m message;
    given answer;
BEGIN
    head := first_head(at_ms, reader, queue, sender, any_floor, own_floor);
    IF head.tid IS NULL THEN
        RETURN nothing(op, queue, sender);
    ELSIF lease_ms IS NOT NULL THEN
        m := take(at_ms, reader, head.part, head.tid, lease_ms);
        IF m.id IS NOT NULL THEN
            given := shown(op, m, null);
        END IF;
    ELSE
        -- `coalesce` checks that the message is still ready, in a form for which the planner considers no index.
        CASE head.part
        WHEN 0 THEN
            DELETE FROM message_0 WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM message_0 WHERE ctid = head.tid AND coalesce(due_ms, 0) = 0 FOR UPDATE SKIP LOCKED))
                RETURNING op, 'm', id, queue_id, sender_id, recipient_id, sent_ms, deliveries + 1, place, null, null, null,
                    first_queue, reason, headers, body, null INTO given;
        WHEN 1 THEN
            DELETE FROM message_1 WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM message_1 WHERE ctid = head.tid AND coalesce(due_ms, 0) = 0 FOR UPDATE SKIP LOCKED))
                RETURNING op, 'm', id, queue_id, sender_id, recipient_id, sent_ms, deliveries + 1, place, null, null, null,
                    first_queue, reason, headers, body, null INTO given;
        WHEN 2 THEN
            DELETE FROM message_aside WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM message_aside WHERE ctid = head.tid AND coalesce(due_ms, 0) = 0 FOR UPDATE SKIP LOCKED))
                RETURNING op, 'm', id, queue_id, sender_id, recipient_id, sent_ms, deliveries + 1, place, null, null, null,
                    first_queue, reason, headers, body, null INTO given;
        END CASE;
        IF given.kind IS NOT NULL AND leaving_is_noted() THEN
            PERFORM note_departure(given.queue_id, octet_length(given.body));
        END IF;
    END IF;
    IF given.kind IS NULL THEN
        -- Another transaction was faster.
        SELECT * INTO given FROM pop_one(op, at_ms, reader, queue, sender, false, false, 1, lease_ms);
    ELSIF queue IS NULL THEN
        given.name := (SELECT q.name FROM posthaste.queue q WHERE q.id = given.queue_id);
    END IF;
    RETURN given;
END $$;
COMMENT ON FUNCTION take_first(int, bigint, int, bigint, int, bigint, bigint, bigint) IS
'A POP of one message, for good or with a lease. Null as queue or sender: none is named. The row of a named queue is locked. Plan: the lanes''; one Tid Scan; queue_pkey where no queue is named; as note_departure.';

CREATE FUNCTION show_first(op int, at_ms bigint, reader int, queue bigint, sender int, any_floor bigint, own_floor bigint)
RETURNS answer LANGUAGE plpgsql AS $$
DECLARE
    head lane_row;
    m message;
    name text;
    given answer;
BEGIN
    head := first_head(at_ms, reader, queue, sender, any_floor, own_floor);
    IF head.tid IS NULL THEN
        RETURN nothing(op, queue, sender);
    END IF;
    m := row_at(head.part, head.tid, head.place);
    IF queue IS NULL THEN
        name := (SELECT q.name FROM posthaste.queue q WHERE q.id = m.queue_id);
    END IF;
    IF m.id IS NULL OR queue IS NULL AND name IS NULL THEN
        -- The message has been taken since, or its queue deleted.
        SELECT * INTO given FROM peek_one(op, at_ms, reader, queue, sender, false, false, 1);
        RETURN given;
    END IF;
    RETURN shown(op, m, name);
END $$;
COMMENT ON FUNCTION show_first(int, bigint, int, bigint, int, bigint, bigint) IS
'A PEEK of one message. Null as queue or sender: none is named. Plan: the lanes''; queue_pkey where no queue is named.';

-- A batch of one request -------------------------------------------------------------------------------------------

CREATE FUNCTION send_alone(given_ms bigint, sender int, queue_name text, recipient int, content bytea) RETURNS SETOF answer
LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint;
    home bigint;
    is_guarded boolean;
    number bigint;
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    -- settled_id takes this lock exclusively, so it waits for this transaction.
    IF pg_advisory_xact_lock_shared(hashtext('posthaste.append'), 0) IS NULL THEN
        RETURN;
    END IF;
    SELECT id, guarded INTO home, is_guarded FROM queue WHERE name = queue_name FOR NO KEY UPDATE SKIP LOCKED;
    IF home IS NULL THEN
        PERFORM wait_for_queue(queue_name);
        SELECT id, guarded INTO home, is_guarded FROM queue WHERE name = queue_name FOR NO KEY UPDATE;
    END IF;
    at_ms := coalesce(given_ms, now_ms());
    IF is_guarded THEN
        RETURN QUERY SELECT a.* FROM queue q, LATERAL send_one(0, at_ms, current_part(), sender, q, content,
            recipient_named(recipient), null, 0, null, 0, null) AS a WHERE q.id = home;
    ELSE
        IF home IS NOT NULL THEN
            number := nextval('posthaste.message_id');
            INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
                VALUES (current_part(), number, place_of(0, number), home, sender, recipient, at_ms, content);
        END IF;
        RETURN NEXT ROW(1, 's', null, null, null, null, null, null, null, null, null, null, null, null, null, null,
            ARRAY[number, home])::answer;
    END IF;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION send_alone(bigint, int, text, int, bytea) IS
'SEND without options, alone in its batch; recipient 0: anyone. Plan: queue_name_key, one INSERT; where the queue has limits or rules as send_one.';

CREATE FUNCTION pop_alone(given_ms bigint, reader int, queue_name text, awaited bigint, sender int, lease_ms bigint,
    any_floor bigint, own_floor bigint) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint;
    later_ms bigint;
    home bigint;
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    IF queue_name IS NOT NULL THEN
        IF pg_advisory_xact_lock_shared(hashtext('posthaste.append'), 0) IS NULL THEN
            RETURN;
        END IF;
        SELECT id INTO home FROM queue WHERE name = queue_name AND id = coalesce(awaited, id) FOR NO KEY UPDATE SKIP LOCKED;
        IF home IS NULL THEN
            PERFORM wait_for_queue(queue_name);
            SELECT id INTO home FROM queue WHERE name = queue_name AND id = coalesce(awaited, id) FOR NO KEY UPDATE;
        END IF;
        IF home IS NULL THEN
            RETURN NEXT refused(0, 'no_queue');
            RETURN NEXT took();
            RETURN;
        END IF;
    END IF;
    -- Read only now, after the wait for the queue: a lease counts from when it is given.
    at_ms := coalesce(given_ms, now_ms());
    IF any_floor = 0 THEN
        any_floor := noted_floor();
        own_floor := greatest(own_floor, any_floor);
    END IF;
    RETURN NEXT take_first(0, at_ms, reader, home, sender, lease_ms, any_floor, own_floor);
    -- A POP without a queue may have waited; then its lease is renewed, so that it is not shortened by that.
    IF given_ms IS NULL AND home IS NULL AND lease_ms IS NOT NULL THEN
        later_ms := now_ms();
        IF later_ms > at_ms + 20 THEN
            PERFORM renew_leases(at_ms, later_ms, ARRAY[lease_ms], '{}', '{}', '{}');
        END IF;
    END IF;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION pop_alone(bigint, int, text, bigint, int, bigint, bigint, bigint) IS
'POP of one message, alone in its batch. Null: no queue, none that was waited for, no sender, or no lease. Plan: queue_name_key; as take_first, renew_leases.';

CREATE FUNCTION peek_alone(given_ms bigint, reader int, queue_name text, sender int, any_floor bigint, own_floor bigint)
RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE home bigint := queue_named(queue_name);
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    IF any_floor = 0 THEN
        any_floor := noted_floor();
        own_floor := greatest(own_floor, any_floor);
    END IF;
    IF home IS NULL AND queue_name IS NOT NULL THEN
        RETURN NEXT refused(0, 'no_queue');
    ELSE
        RETURN NEXT show_first(0, coalesce(given_ms, now_ms()), reader, home, sender, any_floor, own_floor);
    END IF;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION peek_alone(bigint, int, text, int, bigint, bigint) IS
'PEEK of one message, alone in its batch. Null: no queue or no sender. Plan: queue_name_key; as show_first.';

CREATE FUNCTION create_alone(queue_name text) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    IF queue_name IS NOT NULL THEN
        PERFORM lock_name(queue_name);
    END IF;
    RETURN NEXT numbered(0, add_queue(queue_name));
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION create_alone(text) IS 'QCREATE without options, alone in its batch; null: without a name. Plan: as add_queue.';

CREATE FUNCTION delete_alone(queue_name text) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    home bigint;
    removed bigint;
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    IF pg_advisory_xact_lock_shared(hashtext('posthaste.append'), 0) IS NULL THEN
        RETURN;
    END IF;
    SELECT id INTO home FROM queue WHERE name = queue_name FOR NO KEY UPDATE SKIP LOCKED;
    IF home IS NULL THEN
        PERFORM wait_for_queue(queue_name);
        SELECT id INTO home FROM queue WHERE name = queue_name FOR NO KEY UPDATE;
    END IF;
    IF home IS NULL THEN
        RETURN NEXT refused(0, 'no_queue');
        RETURN NEXT took();
        RETURN;
    END IF;
    removed := remove_queue(home, 'refuse');
    IF removed IS NULL THEN
        RETURN NEXT refused(0, 'in_use');
    ELSE
        RETURN NEXT numbered(0, removed);
        RETURN NEXT gone(home);
    END IF;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION delete_alone(text) IS 'QDELETE, alone in its batch. Plan: queue_name_key; as remove_queue.';

CREATE FUNCTION readable_alone(given_ms bigint, reader int, ring_floor bigint, census_place bigint, census_recipients int[],
    census_queues bigint[], census_places bigint[]) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    IF ring_floor = 0 THEN
        ring_floor := noted_floor();
    END IF;
    RETURN QUERY SELECT * FROM readable_step(coalesce(given_ms, now_ms()), ARRAY[0], ARRAY[reader], ring_floor, census_place,
        census_recipients, census_queues, census_places);
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION readable_alone(bigint, int, bigint, bigint, int[], bigint[], bigint[]) IS 'QREADABLE, alone in its batch. Plan: as readable_step.';
