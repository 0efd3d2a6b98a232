-- Steps of a batch: many requests of one kind, done by as few statements as one request would need.
--
-- Arrays have one element for each request; a step is the range from f to t, and its lanes are the range from lf to lt.
-- A queue is a position in `ids`, where null means that the queue does not exist. Requests that cannot be done together
-- are done by the rules, one at a time.
--
-- The cost of a step depends on its statements: the first run of one in a transaction costs ten times as much as a
-- repetition. Hence few, simple statements, and functions that return one value, which PL/pgSQL calls without a statement.

SET LOCAL search_path = posthaste;

-- Accounts that SENDs name are created before them. A batch waits 1 s at most for one that another transaction is creating.

CREATE FUNCTION refuse_locked_accounts(names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'PHNAM', MESSAGE = 'an open transaction keeps an account', DETAIL = array_to_string(names, E'\n');
END $$;
COMMENT ON FUNCTION refuse_locked_accounts(text[]) IS
'Fails with PHNAM; DETAIL has the names of the accounts that open transactions are creating or logging in, one in each line.';

CREATE FUNCTION is_account_locked(account_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '10ms', true);
    PERFORM meet(account_name);
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN true;
END $$;
COMMENT ON FUNCTION is_account_locked(text) IS 'Whether another transaction is creating an account. For a transaction that is about to fail, since this may create it. Plan: as meet.';

CREATE FUNCTION meet_soon(account_name text, wanted text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    number int := (SELECT id FROM account WHERE name = account_name);
    patience text := current_setting('lock_timeout');
BEGIN
    IF number IS NULL THEN
        BEGIN
            PERFORM set_config('lock_timeout', '1s', true);
            number := meet(account_name);
            PERFORM set_config('lock_timeout', patience, true);
        EXCEPTION WHEN lock_not_available THEN
            PERFORM refuse_locked_accounts(account_name || ARRAY(SELECT DISTINCT w.name FROM unnest(wanted) AS w(name) WHERE w.name > account_name AND is_account_locked(w.name)));
        END;
    END IF;
    RETURN number;
END $$;
COMMENT ON FUNCTION meet_soon(text, text[]) IS
'The number of the account of this name, created if the name is new. Waits at most 1 s for a transaction that is creating it; then fails as refuse_locked_accounts, with those of the other wanted names that are being created too. Plan: as meet.';

CREATE FUNCTION store_step(f int, t int, at_ms bigint, part smallint, numbers bigint[], homes bigint[], senders int[],
    recipients int[], delays bigint[], ttls bigint[], priorities int[], headers bytea[], bodies bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, sent_ms, expires_ms, headers, body)
        SELECT CASE WHEN delays[b.i + f - 1] = 0 AND priorities[b.i + f - 1] = 0 THEN part ELSE 2 END, numbers[b.i + f - 1],
            place_of(priorities[b.i + f - 1], numbers[b.i + f - 1]), homes[b.i + f - 1], senders[b.i + f - 1],
            recipients[b.i + f - 1],
            CASE WHEN delays[b.i + f - 1] > 0 THEN least(after(at_ms, delays[b.i + f - 1]), at_ms + ttls[b.i + f - 1]) END, at_ms,
            at_ms + ttls[b.i + f - 1], b.header, b.body
        FROM unnest(headers[f:t], bodies[f:t]) WITH ORDINALITY AS b(header, body, i) WHERE homes[b.i + f - 1] IS NOT NULL;
END $$;
COMMENT ON FUNCTION store_step(int, int, bigint, smallint, bigint[], bigint[], int[], int[], bigint[], bigint[], int[], bytea[], bytea[]) IS
'Stores the messages of SENDs f to t that have a queue in homes; the rows of these queues are locked. Plan: one INSERT from unnest.';

CREATE FUNCTION send_step_guarded(at_ms bigint, part smallint, ids bigint[], ops int[], queues int[], senders int[], recipients int[],
    delays bigint[], ttls bigint[], priorities int[], headers bytea[], bodies bytea[]) RETURNS SETOF answer
LANGUAGE plpgsql AS $$
DECLARE
    asked record;
    q queue;
BEGIN
    FOR asked IN SELECT u.op, u.queue, u.sender, u.recipient, u.delay, u.ttl, u.priority, u.header,
            array_agg(u.body ORDER BY u.at) AS bodies
        FROM unnest(ops, queues, senders, recipients, delays, ttls, priorities, headers, bodies)
            WITH ORDINALITY AS u(op, queue, sender, recipient, delay, ttl, priority, header, body, at)
        GROUP BY u.op, u.queue, u.sender, u.recipient, u.delay, u.ttl, u.priority, u.header ORDER BY min(u.at)
    LOOP
        SELECT * INTO q FROM queue WHERE id = ids[asked.queue];
        IF q.id IS NULL THEN
            RETURN NEXT refused(asked.op, 'no_queue');
        ELSIF cardinality(asked.bodies) > 1 THEN
            RETURN QUERY SELECT * FROM send_all(asked.op, at_ms, part, asked.sender, q, asked.bodies);
        ELSE
            RETURN QUERY SELECT * FROM send_one(asked.op, at_ms, part, asked.sender, q, asked.bodies[1],
                recipient_named(asked.recipient), asked.header, asked.delay, asked.ttl,
                asked.priority, null);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION send_step_guarded(bigint, smallint, bigint[], int[], int[], int[], int[], bigint[], bigint[], int[], bytea[], bytea[]) IS
'The SENDs of a step, by the rules, for a batch in which a queue has limits or rules of its own. Plan: queue_pkey and account_pkey for each; as send_one, send_all.';

CREATE TYPE candidates AS (
    -- The messages that could be given, by lane and place. Part 3 has those that this batch has sent and not stored yet.
    lanes int[],
    places bigint[],
    tids tid[],
    parts smallint[],
    -- For lanes across all queues: the queues of the messages.
    homes bigint[]
);

CREATE FUNCTION choose(kind "char", at_ms bigint, ids bigint[], f int, t int, queues int[], senders int[], recipients int[],
    floors bigint[], wants bigint[]) RETURNS candidates LANGUAGE plpgsql AS $$
DECLARE c candidates;
BEGIN
    CASE kind
    WHEN 'p' THEN
        SELECT array_agg(h.lane), array_agg(h.place), array_agg(h.tid), array_agg(h.part), null::bigint[] INTO c FROM (
            SELECT l.lane, h.place, h.tid, h.part FROM generate_series(f, t) AS l(lane),
                LATERAL queue_lane(at_ms, recipients[l.lane], ids[queues[l.lane]], floors[l.lane], wants[l.lane]) AS h) AS h;
    WHEN 'b' THEN
        SELECT array_agg(h.lane), array_agg(h.place), array_agg(h.tid), array_agg(h.part), null::bigint[] INTO c FROM (
            SELECT l.lane, h.place, h.tid, h.part FROM generate_series(f, t) AS l(lane),
                LATERAL both_lane(at_ms, recipients[l.lane], ids[queues[l.lane]], senders[l.lane], floors[l.lane],
                    wants[l.lane]) AS h) AS h;
    WHEN 'f' THEN
        SELECT array_agg(h.lane), array_agg(h.place), array_agg(h.tid), array_agg(h.part), array_agg(h.home) INTO c FROM (
            SELECT l.lane, h.place, h.tid, h.part, h.queue_id AS home FROM generate_series(f, t) AS l(lane),
                LATERAL sender_lane(at_ms, recipients[l.lane], senders[l.lane], floors[l.lane], wants[l.lane]) AS h) AS h;
    END CASE;
    RETURN c;
END $$;
COMMENT ON FUNCTION choose("char", bigint, bigint[], int, int, int[], int[], int[], bigint[], bigint[]) IS
'The first messages of lanes f to t of one kind, as many as are wanted of each. Plan: the lanes'' index scans.';

CREATE FUNCTION choose_others(kind "char", at_ms bigint, ids bigint[], f int, t int, queues int[], senders int[], recipients int[],
    floors bigint[], wants bigint[], lost bigint[]) RETURNS candidates LANGUAGE plpgsql AS $$
DECLARE c candidates;
BEGIN
    c := choose(kind, at_ms, ids, f, t, queues, senders, recipients, floors,
        ARRAY(SELECT u.want + cardinality(lost) FROM unnest(wants) WITH ORDINALITY AS u(want, lane) ORDER BY u.lane));
    SELECT array_agg(h.lane ORDER BY h.at), array_agg(h.place ORDER BY h.at), array_agg(h.tid ORDER BY h.at),
            array_agg(h.part ORDER BY h.at), c.homes INTO c
        FROM unnest(c.lanes, c.places, c.tids, c.parts) WITH ORDINALITY AS h(lane, place, tid, part, at) WHERE h.place <> ALL(lost);
    RETURN c;
END $$;
COMMENT ON FUNCTION choose_others("char", bigint, bigint[], int, int, int[], int[], int[], bigint[], bigint[], bigint[]) IS
'The first messages of lanes f to t, as choose gives them, without those that were lost to other transactions. Plan: as choose.';

CREATE FUNCTION choose_fresh(c candidates, yf int, yt int, y_lane int[], y_first int[], y_last int[], x_send int[],
    wants bigint[], numbers bigint[], homes bigint[]) RETURNS candidates LANGUAGE plpgsql STABLE AS $$
BEGIN
    FOR y IN yf..yt LOOP
        -- Stored messages are older, and mostly suffice.
        IF coalesce(cardinality(array_positions(c.lanes, y_lane[y])), 0) < wants[y_lane[y]] THEN
            SELECT array_agg(h.lane), array_agg(h.place), array_agg(h.tid), array_agg(h.part), c.homes INTO c FROM (
                SELECT * FROM unnest(c.lanes, c.places, c.tids, c.parts) AS u(lane, place, tid, part)
                UNION ALL
                SELECT y_lane[y], place_of(0, numbers[x_send[u.x]]), null, 3
                    FROM generate_series(y_first[y], y_last[y]) AS u(x) WHERE homes[x_send[u.x]] IS NOT NULL
                ORDER BY lane, place) AS h;
        END IF;
    END LOOP;
    RETURN c;
END $$;
COMMENT ON FUNCTION choose_fresh(candidates, int, int, int[], int[], int[], int[], bigint[], bigint[], bigint[]) IS
'Adds to the candidates what this batch has sent and not stored, for lanes that hold less than is wanted. So a message that is sent and popped in one batch is never written to the table.';

CREATE TYPE assignment AS (
    -- The place of every message that is given, and the request that gets it.
    places bigint[],
    takers int[],
    -- The rows of these messages, for each part of the table.
    tids_0 tid[],
    tids_1 tid[],
    tids_2 tid[],
    -- The places of messages that were never stored.
    fresh bigint[],
    -- Requests that get nothing.
    empty int[],
    -- Places of messages that other transactions have taken, locked or changed first.
    lost bigint[],
    -- Requests that are to be done by the rules, one at a time.
    again int[]
);

CREATE FUNCTION assign(c candidates, first_lane int, lane_count int, f int, t int, wants bigint[], any_lanes int[],
    own_lanes int[]) RETURNS assignment LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    assigned assignment;
    lanes int[] := c.lanes;
    places bigint[] := c.places;
    -- For each lane the next candidate to be given.
    next int[] := array_fill(0, ARRAY[lane_count]);
    given_places bigint[] := '{}';
    takers int[] := '{}';
    a int;
    o int;
    pick int;
    count int;
BEGIN
    FOR i IN REVERSE coalesce(cardinality(lanes), 0)..1 LOOP
        next[lanes[i] - first_lane + 1] := i;
    END LOOP;
    FOR i IN f..t LOOP
        count := 0;
        WHILE count < wants[i] LOOP
            a := next[any_lanes[i]];
            o := next[own_lanes[i]];
            IF lanes[a] = first_lane + any_lanes[i] - 1
                AND (lanes[o] IS DISTINCT FROM first_lane + own_lanes[i] - 1 OR places[a] < places[o]) THEN
                pick := a;
                next[any_lanes[i]] := a + 1;
            ELSIF lanes[o] = first_lane + own_lanes[i] - 1 THEN
                pick := o;
                next[own_lanes[i]] := o + 1;
            ELSE
                EXIT;
            END IF;
            count := count + 1;
            given_places := given_places || places[pick];
            takers := takers || i;
            CASE c.parts[pick]
            WHEN 0 THEN assigned.tids_0 := assigned.tids_0 || c.tids[pick];
            WHEN 1 THEN assigned.tids_1 := assigned.tids_1 || c.tids[pick];
            WHEN 2 THEN assigned.tids_2 := assigned.tids_2 || c.tids[pick];
            ELSE assigned.fresh := assigned.fresh || places[pick];
            END CASE;
        END LOOP;
        IF count = 0 THEN
            assigned.empty := assigned.empty || i;
        END IF;
    END LOOP;
    assigned.places := given_places;
    assigned.takers := takers;
    RETURN assigned;
END $$;
COMMENT ON FUNCTION assign(candidates, int, int, int, int, bigint[], int[], int[]) IS
'Gives each of requests f to t in turn the first messages of its two lanes: those for anyone and those for its reader.';

CREATE FUNCTION exceeds_answer(assigned assignment, sent bigint[], sent_headers bytea[], sent_bodies bytea[]) RETURNS boolean
LANGUAGE plpgsql SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(assigned.places, assigned.takers) AS u(place, taker) JOIN (
            SELECT m.place, content_bytes(m.headers, m.body) AS bytes FROM message m WHERE m.ring = 0 AND m.ctid = ANY(assigned.tids_0)
            UNION ALL
            SELECT m.place, content_bytes(m.headers, m.body) FROM message m WHERE m.ring = 1 AND m.ctid = ANY(assigned.tids_1)
            UNION ALL
            SELECT m.place, content_bytes(m.headers, m.body) FROM message m WHERE m.ring = 2 AND m.ctid = ANY(assigned.tids_2)
            UNION ALL
            SELECT f.place, content_bytes(sent_headers[x.send], sent_bodies[x.send])
                FROM unnest(assigned.fresh) AS f(place), array_position(sent, id_at(f.place)) AS x(send)
        ) AS size ON size.place = u.place
        GROUP BY u.taker HAVING count(*) > 1 AND sum(size.bytes) > answer_bytes_max());
END $$;
COMMENT ON FUNCTION exceeds_answer(assignment, bigint[], bytea[], bytea[]) IS
'Whether a request was assigned more than fits into an answer. Plan: Tid Scans, which read lengths and no bodies.';

CREATE FUNCTION gives_changed_rows() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_setting('server_version_num')::int % 10000 < CASE current_setting('server_version_num')::int / 10000
        WHEN 13 THEN 23 WHEN 14 THEN 20 WHEN 15 THEN 15 WHEN 16 THEN 11 WHEN 17 THEN 7 ELSE 0 END
$$;
COMMENT ON FUNCTION gives_changed_rows() IS
'Whether a statement that locks a row by its ctid returns the new version, with another ctid, if the row is changed meanwhile. This is so on older minor releases of the server only. Inlined.';

CREATE FUNCTION unchanged(tids tid[], places bigint[], chosen candidates) RETURNS bigint[] LANGUAGE plpgsql
SET enable_nestloop = off AS $$
BEGIN
    -- Joined by place, since not every server can hash a tid.
    RETURN ARRAY(SELECT c.place FROM unnest(chosen.places, chosen.tids) AS c(place, tid)
        JOIN unnest(places, tids) AS m(place, tid) ON m.place = c.place WHERE m.tid = c.tid);
END $$;
COMMENT ON FUNCTION unchanged(tid[], bigint[], candidates) IS 'The places of the locked rows that are still the versions which were chosen. Plan: a hash join, no table.';

CREATE FUNCTION lock_assigned(assigned assignment, chosen candidates) RETURNS assignment LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    tids tid[];
    mine tid[];
    places bigint[];
BEGIN
    FOR p IN 0..2 LOOP
        tids := CASE p WHEN 0 THEN assigned.tids_0 WHEN 1 THEN assigned.tids_1 ELSE assigned.tids_2 END;
        CONTINUE WHEN tids IS NULL;
        -- Places too: a row that was changed since it was chosen has another ctid.
        SELECT coalesce(array_agg(m.ctid), '{}'), coalesce(array_agg(m.place), '{}') INTO mine, places FROM (
            SELECT ctid, message.place FROM message WHERE ring = p AND ctid = ANY(tids) AND due_ms IS NULL
            FOR UPDATE SKIP LOCKED) AS m;
        IF gives_changed_rows() THEN
            places := unchanged(mine, places, chosen);
        END IF;
        IF cardinality(places) < cardinality(tids) THEN
            -- By set operations, which hash: one of ten thousand assigned messages may be lost.
            assigned.lost := assigned.lost || ARRAY(
                (SELECT u.place FROM unnest(assigned.places) AS u(place)
                    INTERSECT SELECT c.place FROM unnest(chosen.places, chosen.parts) AS c(place, part) WHERE c.part = p)
                EXCEPT SELECT u.place FROM unnest(places) AS u(place));
        END IF;
    END LOOP;
    RETURN assigned;
END $$;
COMMENT ON FUNCTION lock_assigned(assignment, candidates) IS
'Locks the rows that were assigned, and adds to lost those that another transaction has locked, changed or removed. Does not wait. Plan: Tid Scans, even where a table looks empty when this is planned; as unchanged.';

CREATE FUNCTION give_up(assigned assignment, chosen candidates, any_lanes int[]) RETURNS assignment LANGUAGE plpgsql AS $$
BEGIN
    -- Of requests with the same lane for anyone, a later one must not overtake one that has lost a message.
    assigned.again := ARRAY(
        SELECT DISTINCT u.taker FROM unnest(assigned.takers) AS u(taker), (
            SELECT any_lanes[l.taker] AS lane, min(l.taker) AS taker FROM unnest(assigned.places, assigned.takers) AS l(place, taker)
            WHERE l.place = ANY(assigned.lost) GROUP BY any_lanes[l.taker]) AS first
        WHERE any_lanes[u.taker] = first.lane AND u.taker >= first.taker ORDER BY u.taker);
    SELECT coalesce(array_agg(u.place), '{}'), coalesce(array_agg(u.taker), '{}') INTO assigned.places, assigned.takers
        FROM unnest(assigned.places, assigned.takers) AS u(place, taker) WHERE u.taker <> ALL(assigned.again);
    SELECT array_agg(c.tid) FILTER (WHERE c.part = 0), array_agg(c.tid) FILTER (WHERE c.part = 1),
            array_agg(c.tid) FILTER (WHERE c.part = 2), array_agg(c.place) FILTER (WHERE c.part = 3)
        INTO assigned.tids_0, assigned.tids_1, assigned.tids_2, assigned.fresh
        FROM unnest(chosen.places, chosen.tids, chosen.parts) AS c(place, tid, part) WHERE c.place = ANY(assigned.places);
    RETURN assigned;
END $$;
COMMENT ON FUNCTION give_up(assignment, candidates, int[]) IS
'Takes back what was assigned to requests that lost a message, and to later requests with the same lane for anyone; these are to be done again by the rules. Plan: no table.';

CREATE FUNCTION take_step(assigned assignment) RETURNS SETOF answer LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE tids tid[];
BEGIN
    FOR p IN 0..2 LOOP
        tids := CASE p WHEN 0 THEN assigned.tids_0 WHEN 1 THEN assigned.tids_1 ELSE assigned.tids_2 END;
        CONTINUE WHEN tids IS NULL;
        IF leaving_is_noted() THEN
            PERFORM note_departures(p, tids);
        END IF;
        RETURN QUERY DELETE FROM message WHERE ring = p AND ctid = ANY(tids) RETURNING null::int, 'm'::"char", id,
            queue_id, sender_id, recipient_id, sent_ms, deliveries + 1, place, null::bigint, null::bigint, null::text,
            first_queue, reason, headers, body, null::bigint[];
    END LOOP;
END $$;
COMMENT ON FUNCTION take_step(assignment) IS 'Removes the locked messages that were assigned, and returns them. Plan: Tid Scans; as note_departures.';

CREATE FUNCTION lease_step(at_ms bigint, assigned assignment, readers int[], leases bigint[]) RETURNS SETOF answer LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE tids tid[];
BEGIN
    FOR p IN 0..1 LOOP
        tids := CASE p WHEN 0 THEN assigned.tids_0 ELSE assigned.tids_1 END;
        CONTINUE WHEN tids IS NULL;
        RETURN QUERY
            WITH gone AS (DELETE FROM message WHERE ring = p AND ctid = ANY(tids) RETURNING *),
            kept AS (
                INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
                    deliveries, sent_ms, expires_ms, headers, body)
                SELECT 2, g.id, g.place, g.queue_id, g.sender_id, g.recipient_id, after(at_ms, leases[u.taker]), readers[u.taker],
                    new_receipt(), 1, g.sent_ms, g.expires_ms, g.headers, g.body
                FROM gone g JOIN unnest(assigned.places, assigned.takers) AS u(place, taker) ON u.place = g.place
                RETURNING *)
            SELECT null::int, 'm'::"char", k.id, k.queue_id, k.sender_id, k.recipient_id, k.sent_ms, k.deliveries, k.place,
                k.receipt, k.due_ms, null::text, null::text, null::text, k.headers, k.body, null::bigint[]
            FROM kept k;
    END LOOP;
    tids := assigned.tids_2;
    IF tids IS NOT NULL THEN
        RETURN QUERY
            UPDATE message m SET deliveries = m.deliveries + 1, due_ms = after(at_ms, leases[u.taker]), holder_id = readers[u.taker],
                receipt = new_receipt()
            FROM unnest(assigned.places, assigned.takers) AS u(place, taker)
            WHERE m.ring = 2 AND m.ctid = ANY(tids) AND m.place = u.place
            RETURNING null::int, 'm'::"char", m.id, m.queue_id, m.sender_id, m.recipient_id, m.sent_ms, m.deliveries, m.place,
                m.receipt, m.due_ms, null::text, m.first_queue, m.reason, m.headers, m.body, null::bigint[];
    END IF;
END $$;
COMMENT ON FUNCTION lease_step(bigint, assignment, int[], bigint[]) IS
'Leases the locked messages that were assigned, and returns them. Those from the ring are moved aside. Plan: Tid Scans.';

CREATE FUNCTION pop_by_rules(at_ms bigint, takers int[], wants bigint[], ids bigint[], ops int[], queues int[], readers int[],
    senders int[], leases bigint[]) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE i int;
BEGIN
    PERFORM set_config('posthaste.passed', '0', true);
    FOREACH i IN ARRAY takers LOOP
        IF wants[i] = 0 OR queues[i] <> 0 AND ids[queues[i]] IS NULL THEN
            RETURN NEXT refused(ops[i], 'no_queue');
        ELSE
            RETURN QUERY SELECT * FROM pop_one(ops[i], at_ms, readers[i], ids[queues[i]], senders[i], false, false, wants[i],
                leases[i]);
        END IF;
    END LOOP;
    PERFORM set_config('posthaste.passed', '', true);
END $$;
COMMENT ON FUNCTION pop_by_rules(bigint, int[], bigint[], bigint[], int[], int[], int[], int[], bigint[]) IS
'Does these POPs of a step one after the other, each for as many messages as it wants. A want of 0 marks a POP that waited for a queue which has been deleted. Plan: as pop_one.';

CREATE FUNCTION lane_floors(c candidates, high bigint, f int, t int, ids bigint[], queues int[], floors bigint[])
RETURNS SETOF answer LANGUAGE plpgsql AS $$
BEGIN
    FOR l IN f..t LOOP
        IF floors[l] IS NOT NULL AND ids[queues[l]] IS NOT NULL THEN
            RETURN NEXT ROW(l, 'l', least(c.places[array_position(c.lanes, l)], place_of(0, high)), null, null, null, null,
                null, null, null, null, null, null, null, null, null, null)::answer;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION lane_floors(candidates, bigint, int, int, bigint[], int[], bigint[]) IS
'The floors of lanes f to t: the ring holds nothing below a lane''s first candidate, or without one below the newest id.';

CREATE FUNCTION peek_by_queue(at_ms bigint, ids bigint[], f int, t int, ops int[], queues int[], readers int[],
    first_lane int, floors bigint[], any_lanes int[], own_lanes int[]) RETURNS SETOF answer
LANGUAGE sql STABLE AS $$
    SELECT (shown(ops[r.i], m::message, null)).* FROM generate_series(f, t) AS r(i), LATERAL (
        SELECT * FROM (
            SELECT * FROM queue_lane(at_ms, 0, ids[queues[r.i]], floors[first_lane - 1 + any_lanes[r.i]], 1)
            UNION ALL
            SELECT * FROM queue_lane(at_ms, readers[r.i], ids[queues[r.i]], floors[first_lane - 1 + own_lanes[r.i]], 1)
        ) AS l ORDER BY l.place LIMIT 1) AS h, LATERAL (
        SELECT * FROM message WHERE ring = h.part AND ctid = h.tid OFFSET 0) AS m
$$;
COMMENT ON FUNCTION peek_by_queue(bigint, bigint[], int, int, int[], int[], int[], int, bigint[], int[], int[]) IS
'PEEKs f to t by queue, each of one message; a request without a row found nothing. Inlined. Plan: message_by_queue.';

CREATE FUNCTION peek_by_both(at_ms bigint, ids bigint[], f int, t int, ops int[], queues int[], readers int[], senders int[],
    first_lane int, floors bigint[], any_lanes int[], own_lanes int[]) RETURNS SETOF answer
LANGUAGE sql STABLE AS $$
    SELECT (shown(ops[r.i], m::message, null)).* FROM generate_series(f, t) AS r(i), LATERAL (
        SELECT * FROM (
            SELECT * FROM both_lane(at_ms, 0, ids[queues[r.i]], senders[r.i], floors[first_lane - 1 + any_lanes[r.i]], 1)
            UNION ALL
            SELECT * FROM both_lane(at_ms, readers[r.i], ids[queues[r.i]], senders[r.i], floors[first_lane - 1 + own_lanes[r.i]], 1)
        ) AS l ORDER BY l.place LIMIT 1) AS h, LATERAL (
        SELECT * FROM message WHERE ring = h.part AND ctid = h.tid OFFSET 0) AS m
$$;
COMMENT ON FUNCTION peek_by_both(bigint, bigint[], int, int, int[], int[], int[], int[], int, bigint[], int[], int[]) IS
'PEEKs f to t by queue and sender, each of one message; a request without a row found nothing. Plan: message_by_both.';

CREATE FUNCTION peek_by_sender(at_ms bigint, f int, t int, ops int[], readers int[], senders int[],
    first_lane int, floors bigint[], any_lanes int[], own_lanes int[]) RETURNS SETOF answer LANGUAGE sql STABLE AS $$
    SELECT (shown(ops[r.i], m::message, (SELECT name FROM queue WHERE id = h.queue_id))).*
    FROM generate_series(f, t) AS r(i), LATERAL (
        SELECT * FROM (
            SELECT * FROM sender_lane(at_ms, 0, senders[r.i], floors[first_lane - 1 + any_lanes[r.i]], 1)
            UNION ALL
            SELECT * FROM sender_lane(at_ms, readers[r.i], senders[r.i], floors[first_lane - 1 + own_lanes[r.i]], 1)
        ) AS l ORDER BY l.place LIMIT 1) AS h, LATERAL (
        SELECT * FROM message WHERE ring = h.part AND ctid = h.tid OFFSET 0) AS m
$$;
COMMENT ON FUNCTION peek_by_sender(bigint, int, int, int[], int[], int[], int, bigint[], int[], int[]) IS
'PEEKs f to t by sender alone, each of one message; a request without a row found nothing. Plan: message_by_sender, queue_pkey.';

CREATE FUNCTION ack_step(at_ms bigint, ops int[], accounts int[], messages bigint[], receipts bigint[]) RETURNS SETOF answer
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
BEGIN
    -- Waits for row locks, in the order of ids: a POP that was too late for a message may have locked the new version of
    -- its row, which has the lease, until it commits.
    -- One id at a time: for several together the planner of an empty table prefers another index, which reads all leases.
    -- `coalesce`, here and wherever a lease is found by its id, so that the planner considers no index of leases: one that is
    -- shorter than that by id looks better to it, although it reads all of them.
    RETURN QUERY WITH leased AS MATERIALIZED (
        SELECT l.* FROM (SELECT DISTINCT u.id FROM unnest(messages) AS u(id) ORDER BY u.id) AS asked, LATERAL (
            SELECT id, holder_id, receipt FROM message WHERE ring = 2 AND message.id = asked.id AND coalesce(due_ms, 0) > at_ms
                AND holder_id IS NOT NULL FOR UPDATE) AS l),
    matched AS MATERIALIZED (
        SELECT DISTINCT ON (u.id) u.op, u.id
        FROM unnest(ops, accounts, messages, receipts) WITH ORDINALITY AS u(op, account, id, receipt, at)
            JOIN leased l ON l.id = u.id
                AND CASE WHEN u.receipt IS NULL THEN l.holder_id = u.account ELSE l.receipt = u.receipt END
        ORDER BY u.id, u.at),
    gone AS (DELETE FROM message WHERE ring = 2 AND id = ANY(ARRAY(SELECT id FROM matched))
        RETURNING queue_id, octet_length(body) AS bytes),
    noted AS (INSERT INTO room_taken SELECT g.queue_id, -count(*), -sum(g.bytes) FROM gone g WHERE leaving_is_noted()
        GROUP BY g.queue_id HAVING (room_of(g.queue_id)).number IS NOT NULL)
    SELECT u.op, 'i'::"char", count(m.id), null::bigint, null::int, null::int, null::bigint, null::int, null::bigint,
        null::bigint, null::bigint, null::text, null::text, null::text, null::bytea, null::bytea, null::bigint[]
    FROM (SELECT DISTINCT op FROM unnest(ops) AS o(op)) AS u LEFT JOIN matched m ON m.op = u.op GROUP BY u.op;
END $$;
COMMENT ON FUNCTION ack_step(bigint, int[], int[], bigint[], bigint[]) IS
'ACKs: removes the leased messages; of several ACKs for one message the first counts. Fails if another transaction locks a row for longer than 2 s. Plan: message_aside_by_id; as room_of for each queue.';

CREATE FUNCTION queues_with(at_ms bigint, recipients int[], from_place bigint, parts int[])
RETURNS TABLE (recipient int, queue bigint) LANGUAGE sql STABLE AS $$
    -- Goes from queue to queue in each part of the table: every seek begins behind the queue that was found last. 0 is
    -- before the first queue, null after the last. Ordered as the right index is: by queue alone, another index looks as
    -- good to the planner of an empty part.
    WITH RECURSIVE found(recipient, part, queue) AS (
        SELECT DISTINCT u.recipient, p.part, 0::bigint FROM unnest(recipients) AS u(recipient), unnest(parts) AS p(part)
        UNION ALL
        SELECT f.recipient, f.part, CASE f.part
            WHEN 0 THEN (SELECT queue_id FROM message
                WHERE ring = 0 AND recipient_id = f.recipient AND sender_id > 0 AND due_ms IS NULL AND queue_id > f.queue
                    AND place >= from_place AND (expires_ms IS NULL OR expires_ms > at_ms)
                ORDER BY recipient_id, queue_id, place LIMIT 1)
            WHEN 1 THEN (SELECT queue_id FROM message
                WHERE ring = 1 AND recipient_id = f.recipient AND sender_id > 0 AND due_ms IS NULL AND queue_id > f.queue
                    AND place >= from_place AND (expires_ms IS NULL OR expires_ms > at_ms)
                ORDER BY recipient_id, queue_id, place LIMIT 1)
            ELSE (SELECT queue_id FROM message
                WHERE ring = 2 AND recipient_id = f.recipient AND sender_id > 0 AND due_ms IS NULL AND queue_id > f.queue
                    AND (expires_ms IS NULL OR expires_ms > at_ms)
                ORDER BY recipient_id, queue_id, place LIMIT 1)
            END
        FROM found f WHERE f.queue IS NOT NULL)
    SELECT DISTINCT f.recipient, f.queue FROM found f WHERE f.queue > 0
$$;
COMMENT ON FUNCTION queues_with(bigint, int[], bigint, int[]) IS
'The queues that hold something for these recipients (0: for anyone) in these parts of the table. One index seek for each queue in each part that holds something. Inlined. Plan: message_by_queue.';

CREATE FUNCTION queues_since(at_ms bigint, recipients int[], from_place bigint)
RETURNS TABLE (recipient int, queue bigint) LANGUAGE plpgsql STRICT STABLE
SET max_parallel_workers_per_gather = 0
SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
BEGIN
    -- Without "due_ms IS NULL", which is always so in the ring: with it the planner could use the indexes of ready messages,
    -- whose scans would be long.
    RETURN QUERY SELECT DISTINCT m.recipient_id, m.queue_id FROM message m
        WHERE m.ring IN (0, 1) AND m.place >= from_place AND m.recipient_id = ANY(recipients)
            AND (m.expires_ms IS NULL OR m.expires_ms > at_ms);
END $$;
COMMENT ON FUNCTION queues_since(bigint, int[], bigint) IS
'The queues that hold something for these recipients in the ring, found by reading all of the ring from from_place on. Plan: message_0_by_place, message_1_by_place.';

CREATE FUNCTION queues_still_with(at_ms bigint, recipients int[], queues bigint[], places bigint[])
RETURNS TABLE (recipient int, queue bigint) LANGUAGE sql STABLE AS $$
    SELECT u.recipient, u.queue FROM unnest(recipients, queues, places) AS u(recipient, queue, first)
    WHERE (SELECT place FROM message_0
            WHERE recipient_id = u.recipient AND queue_id = u.queue AND sender_id > 0 AND due_ms IS NULL AND place >= u.first
                AND (expires_ms IS NULL OR expires_ms > at_ms)
            ORDER BY place LIMIT 1) IS NOT NULL
        OR (SELECT place FROM message_1
            WHERE recipient_id = u.recipient AND queue_id = u.queue AND sender_id > 0 AND due_ms IS NULL AND place >= u.first
                AND (expires_ms IS NULL OR expires_ms > at_ms)
            ORDER BY place LIMIT 1) IS NOT NULL
$$;
COMMENT ON FUNCTION queues_still_with(bigint, int[], bigint[], bigint[]) IS
'Those of these queues for which the ring still holds something for these recipients, from these places on. Inlined. Plan: message_by_queue, one or two seeks for each.';

CREATE FUNCTION readable_step(at_ms bigint, ops int[], readers int[], from_place bigint, census_place bigint,
    census_recipients int[], census_queues bigint[], census_places bigint[]) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    recipients int[] := readers || 0;
    ring_bytes bigint := pg_relation_size('posthaste.message_0') + pg_relation_size('posthaste.message_1');
    since bigint := nullif(census_place, 0);
BEGIN
    -- A long ring is full of removed rows, whose index entries are walked by seeks from queue to queue. If few messages
    -- were added since the census, these are read instead, at four times the cost for each. A message has some 250 bytes.
    IF ring_bytes <= long_ring_bytes() OR since IS NULL
        OR since < place_of(0, greatest(newest_id() - least(ring_bytes / 1000, 20000), 0))
    THEN
        since := null;
        census_recipients := '{}';
        census_queues := '{}';
        census_places := '{}';
    END IF;
    -- Queues with messages for anyone are returned once for all requests, and so is each name.
    RETURN QUERY WITH listed AS MATERIALIZED (
            SELECT w.recipient, w.queue
                FROM queues_with(at_ms, recipients, from_place, CASE WHEN since IS NULL THEN '{0, 1, 2}' ELSE '{2}'::int[] END) AS w
            UNION SELECT s.recipient, s.queue FROM queues_since(at_ms, recipients, since) AS s
            UNION SELECT h.recipient, h.queue
                FROM queues_still_with(at_ms, census_recipients, census_queues, census_places) AS h),
        lists AS (
            SELECT l.recipient, array_agg(l.queue ORDER BY l.queue) AS queues FROM listed l GROUP BY l.recipient)
        SELECT u.op, 'r'::"char", ops[1]::bigint, null::bigint, null::int, null::int, null::bigint, null::int,
            null::bigint, null::bigint, null::bigint, null::text, null::text, null::text, null::bytea, null::bytea, l.queues
            FROM (SELECT * FROM unnest(ops, readers) UNION ALL SELECT null, 0) AS u(op, reader)
                LEFT JOIN lists l ON l.recipient = u.reader
        UNION ALL SELECT null, 'n', null, q.id, null, null, null, null, null, null, null, q.name, null, null, null, null, null
            FROM queue q WHERE q.id = ANY(ARRAY(SELECT DISTINCT l.queue FROM listed l));
END $$;
COMMENT ON FUNCTION readable_step(bigint, int[], int[], bigint, bigint, int[], bigint[], bigint[]) IS
'QREADABLEs: for each a row with the queues that hold something for its reader alone, and a row without a request with the queues that hold something for anyone. census_…: the lanes of these readers that held something, as take_census returned them, and the place up to which it looked; 0 and no lanes: there was no census. Plan: queues_with, or queues_since and queues_still_with; queue_pkey.';

CREATE FUNCTION queues_with_others(at_ms bigint, reader int) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE from_place bigint := noted_floor();
BEGIN
    -- The first message is seldom the reader's own; only where it is, other senders are looked for.
    RETURN ARRAY(SELECT DISTINCT w.queue FROM queues_with(at_ms, ARRAY[0, reader], from_place, '{0, 1, 2}') AS w
        WHERE EXISTS (SELECT FROM queue_lane(at_ms, w.recipient, w.queue, from_place, 1) AS l WHERE l.sender_id <> reader)
            OR EXISTS (SELECT FROM heads(at_ms, reader, w.queue, null, true, false, 1)));
END $$;
COMMENT ON FUNCTION queues_with_others(bigint, int) IS
'The queues that hold something for the reader, or for anyone, that the reader did not send. Plan: as queues_with; queue_lane for each of these queues; heads for those whose first message is the reader''s own.';

CREATE FUNCTION readable_not_own(op int, at_ms bigint, reader int) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE queues bigint[] := queues_with_others(at_ms, reader);
BEGIN
    RETURN NEXT ROW(op, 'r', null, null, null, null, null, null, null, null, null, null, null, null, null, null, queues)::answer;
    RETURN QUERY SELECT * FROM queue_names(queues);
END $$;
COMMENT ON FUNCTION readable_not_own(int, bigint, int) IS
'QREADABLE with NOTOWN: a row with all queues, those with messages for anyone too, and the names of these. Plan: as queues_with_others; queue_pkey.';
