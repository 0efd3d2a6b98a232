-- Steps of a batch: many requests of one kind, done by as few statements as one would take.
--
-- Every array of a step has one element for each of its requests. Queues are positions in `ids`, whose null is a queue
-- that does not exist. What a step cannot do in one go it does by the rules, one request at a time.

SET LOCAL search_path = posthaste;

CREATE FUNCTION send_step(at_ms bigint, part smallint, ids bigint[], ops int[], queues int[], senders int[], recipients int[],
    delays bigint[], ttls bigint[], priorities int[], headers bytea[], bodies bytea[]) RETURNS SETOF answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH asked AS MATERIALIZED (
        SELECT u.*, ids[u.queue] AS queue_id, CASE WHEN ids[u.queue] IS NOT NULL THEN nextval('message_id') END AS id
        FROM unnest(ops, queues, senders, recipients, delays, ttls, priorities, headers, bodies)
            AS u(op, queue, sender, recipient, delay, ttl, priority, header, body)),
    kept AS (
        INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, sent_ms, expires_ms, headers, body)
        SELECT CASE WHEN a.delay = 0 AND a.priority = 0 THEN part ELSE 2 END, a.id, place_of(a.priority, a.id), a.queue_id,
            a.sender, a.recipient, CASE WHEN a.delay > 0 THEN least(at_ms + a.delay, at_ms + a.ttl) END, at_ms,
            at_ms + a.ttl, a.header, a.body
        FROM asked a WHERE a.id IS NOT NULL)
    SELECT a.op, CASE WHEN a.id IS NULL THEN 'f'::"char" ELSE 'i' END, a.id, a.queue_id, null::int, null::int,
        null::bigint, null::int, null::bigint, null::bigint, null::bigint, null::text, null::text,
        CASE WHEN a.id IS NULL THEN 'no_queue' END, null::bytea, null::bytea, null::bigint[]
    FROM asked a;
END $$;
COMMENT ON FUNCTION send_step(bigint, smallint, bigint[], int[], int[], int[], int[], bigint[], bigint[], int[], bytea[], bytea[]) IS
'SENDs to queues without limits, whose rows the caller has locked: ids grow in the order of the arrays. Plan: one INSERT from unnest.';

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
                (SELECT name FROM account WHERE id = asked.recipient), asked.header, asked.delay, asked.ttl,
                asked.priority, null);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION send_step_guarded(bigint, smallint, bigint[], int[], int[], int[], int[], bigint[], bigint[], int[], bytea[], bytea[]) IS
'The same where a queue of the batch has limits or rules of its own.';

CREATE FUNCTION give_away(part smallint, tids tid[], ops int[], places bigint[], named boolean[]) RETURNS SETOF answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH gone AS (DELETE FROM message WHERE ring = part AND ctid = ANY(tids) RETURNING *)
    SELECT u.op, 'm'::"char", g.id, g.queue_id, g.sender_id, g.recipient_id, g.sent_ms, g.deliveries + 1, g.place,
        null::bigint, null::bigint, CASE WHEN u.named THEN (SELECT name FROM queue WHERE id = g.queue_id) END,
        g.first_queue, g.reason, g.headers, g.body, null::bigint[]
    FROM gone g JOIN unnest(ops, places, named) AS u(op, place, named) ON u.place = g.place;
END $$;
COMMENT ON FUNCTION give_away(smallint, tid[], int[], bigint[], boolean[]) IS
'Hands out for good; with the queue''s name where the reader did not say it. Plan: Tid Scan of one part, queue_pkey.';

CREATE FUNCTION lend(at_ms bigint, part smallint, tids tid[], ops int[], places bigint[], named boolean[], readers int[],
    leases bigint[]) RETURNS SETOF answer LANGUAGE plpgsql AS $$
BEGIN
    IF part = 2 THEN
        RETURN QUERY
            UPDATE message m SET deliveries = m.deliveries + 1, due_ms = at_ms + u.lease, holder_id = u.reader,
                receipt = new_receipt()
            FROM unnest(ops, places, named, readers, leases) AS u(op, place, named, reader, lease)
            WHERE m.ring = 2 AND m.ctid = ANY(tids) AND m.place = u.place
            RETURNING u.op, 'm'::"char", m.id, m.queue_id, m.sender_id, m.recipient_id, m.sent_ms, m.deliveries, m.place,
                m.receipt, m.due_ms, CASE WHEN u.named THEN (SELECT name FROM queue WHERE id = m.queue_id) END, m.first_queue, m.reason, m.headers, m.body, null::bigint[];
    ELSE
        RETURN QUERY
            WITH gone AS (DELETE FROM message WHERE ring = part AND ctid = ANY(tids) RETURNING *),
            kept AS (
                INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
                    deliveries, sent_ms, expires_ms, headers, body)
                SELECT 2, g.id, g.place, g.queue_id, g.sender_id, g.recipient_id, at_ms + u.lease, u.reader, new_receipt(),
                    1, g.sent_ms, g.expires_ms, g.headers, g.body
                FROM gone g JOIN unnest(places, readers, leases) AS u(place, reader, lease) ON u.place = g.place
                RETURNING *)
            SELECT u.op, 'm'::"char", k.id, k.queue_id, k.sender_id, k.recipient_id, k.sent_ms, k.deliveries, k.place,
                k.receipt, k.due_ms, CASE WHEN u.named THEN (SELECT name FROM queue WHERE id = k.queue_id) END, null::text,
                null::text, k.headers, k.body, null::bigint[]
            FROM kept k JOIN unnest(ops, places, named) AS u(op, place, named) ON u.place = k.place;
    END IF;
END $$;
COMMENT ON FUNCTION lend(bigint, smallint, tid[], int[], bigint[], boolean[], int[], bigint[]) IS
'Hands out until ACK or until the lease ends; the message is kept aside. Plan: Tid Scan of one part.';

CREATE FUNCTION hand_out(at_ms bigint, p smallint, leased boolean, given int[], given_to int[], places bigint[], tids tid[],
    parts smallint[], ids bigint[], ops int[], queues int[], readers int[], senders int[], leases bigint[])
RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    chosen record;
    mine record;
BEGIN
    SELECT array_agg(tids[u.g]) AS tids, array_agg(places[u.g]) AS places, array_agg(u.t) AS whose,
        array_agg(ops[u.t]) AS ops, array_agg(queues[u.t] = 0) AS named, array_agg(readers[u.t]) AS readers,
        array_agg(leases[u.t]) AS leases
        INTO chosen FROM unnest(given, given_to) AS u(g, t) WHERE parts[u.g] = p;
    SELECT array_agg(l.tid) AS tids, coalesce(array_agg(l.place), '{}') AS places INTO mine FROM (
        SELECT ctid AS tid, place FROM message WHERE ring = p AND ctid = ANY(chosen.tids) AND due_ms IS NULL
        FOR UPDATE SKIP LOCKED) AS l;
    IF leased THEN
        RETURN QUERY SELECT w.* FROM (
            SELECT array_agg(u.op) AS ops, array_agg(u.place) AS places, array_agg(u.named) AS named,
                array_agg(u.reader) AS readers, array_agg(u.lease) AS leases, array_agg(l.tid) AS tids
            FROM unnest(chosen.ops, chosen.places, chosen.named, chosen.readers, chosen.leases)
                AS u(op, place, named, reader, lease) JOIN unnest(mine.tids, mine.places) AS l(tid, place) USING (place)
            WHERE u.lease IS NOT NULL
        ) AS x, LATERAL lend(at_ms, p, x.tids, x.ops, x.places, x.named, x.readers, x.leases) AS w;
        RETURN QUERY SELECT w.* FROM (
            SELECT array_agg(u.op) AS ops, array_agg(u.place) AS places, array_agg(u.named) AS named,
                array_agg(l.tid) AS tids
            FROM unnest(chosen.ops, chosen.places, chosen.named, chosen.leases)
                AS u(op, place, named, lease) JOIN unnest(mine.tids, mine.places) AS l(tid, place) USING (place)
            WHERE u.lease IS NULL
        ) AS x, LATERAL give_away(p, x.tids, x.ops, x.places, x.named) AS w;
    ELSE
        RETURN QUERY SELECT * FROM give_away(p, mine.tids, chosen.ops, chosen.places, chosen.named);
    END IF;
    -- What somebody else took in between is made up for, one request at a time.
    IF cardinality(mine.places) < cardinality(chosen.places) THEN
        RETURN QUERY SELECT w.* FROM (
            SELECT u.t, count(*) AS missing FROM unnest(chosen.places, chosen.whose) AS u(place, t)
            WHERE u.place <> ALL(mine.places) GROUP BY u.t
        ) AS x, LATERAL pop_one(ops[x.t], at_ms, readers[x.t], ids[queues[x.t]], senders[x.t], false, false, x.missing,
            leases[x.t]) AS w;
    END IF;
END $$;
COMMENT ON FUNCTION hand_out(bigint, smallint, boolean, int[], int[], bigint[], tid[], smallint[], bigint[], int[], int[], int[], int[], bigint[]) IS
'Takes what pop_step has chosen from one part. Plan: Tid Scans.';

CREATE FUNCTION pop_step(kind "char", at_ms bigint, high bigint, ids bigint[], ops int[], queues int[], readers int[], senders int[],
    wants bigint[], leases bigint[], any_lanes int[], own_lanes int[], first_lane int, lane_queues int[], lane_senders int[],
    lane_recipients int[], lane_floors bigint[], lane_wants bigint[]) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    -- Candidates by lane and place, and for each lane the next one to be given.
    lanes int[];
    places bigint[];
    tids tid[];
    parts smallint[];
    next int[] := array_fill(0, ARRAY[cardinality(lane_queues)]);
    floor bigint;
    -- What is given to whom.
    given int[] := '{}';
    given_to int[] := '{}';
    a int;
    o int;
    pick int;
    count int;
    part_used boolean[] := '{f,f,f}';
    leased boolean := false;
BEGIN
    -- One kind of lane at a time: a message stands in a lane of each kind, but only in one of each.
    CASE kind
    WHEN 'p' THEN
        SELECT array_agg(c.lane), array_agg(c.place), array_agg(c.tid), array_agg(c.part) INTO lanes, places, tids, parts
        FROM (
            SELECT l.lane, h.place, h.tid, h.part
            FROM unnest(lane_queues, lane_senders, lane_recipients, lane_floors, lane_wants) WITH ORDINALITY
                    AS l(queue, sender, recipient, floor, want, lane),
                LATERAL queue_lane(at_ms, l.recipient, ids[l.queue], l.floor, l.want) AS h
            ORDER BY l.lane, h.place
        ) AS c;
    WHEN 'b' THEN
        SELECT array_agg(c.lane), array_agg(c.place), array_agg(c.tid), array_agg(c.part) INTO lanes, places, tids, parts
        FROM (
            SELECT l.lane, h.place, h.tid, h.part
            FROM unnest(lane_queues, lane_senders, lane_recipients, lane_floors, lane_wants) WITH ORDINALITY
                    AS l(queue, sender, recipient, floor, want, lane),
                LATERAL both_lane(at_ms, l.recipient, ids[l.queue], l.sender, l.floor, l.want) AS h
            ORDER BY l.lane, h.place
        ) AS c;
    WHEN 'f' THEN
        SELECT array_agg(c.lane), array_agg(c.place), array_agg(c.tid), array_agg(c.part) INTO lanes, places, tids, parts
        FROM (
            SELECT l.lane, h.place, h.tid, h.part
            FROM unnest(lane_queues, lane_senders, lane_recipients, lane_floors, lane_wants) WITH ORDINALITY
                    AS l(queue, sender, recipient, floor, want, lane),
                LATERAL sender_lane(at_ms, l.recipient, l.sender, l.want) AS h
            ORDER BY l.lane, h.place
        ) AS c;
    END CASE;
    FOR i IN REVERSE coalesce(cardinality(lanes), 0)..1 LOOP
        next[lanes[i]] := i;
    END LOOP;

    -- A lane of the ring has nothing left below its first candidate, or below the newest id. Told now and then.
    FOR l IN 1..cardinality(lane_queues) LOOP
        IF place_of(0, high) > lane_floors[l] + 500 AND ids[lane_queues[l]] IS NOT NULL THEN
            floor := least(places[next[l]], place_of(0, high));
            RETURN NEXT ROW(first_lane + l - 1, 'l', floor, null, null, null, null, null, null, null, null, null, null, null,
                null, null, null)::answer;
        END IF;
    END LOOP;

    -- Each reader in turn gets the oldest of what is for anyone and what is for it.
    FOR i IN 1..cardinality(ops) LOOP
        count := 0;
        WHILE count < wants[i] LOOP
            a := next[any_lanes[i]];
            o := next[own_lanes[i]];
            IF lanes[a] = any_lanes[i] AND (lanes[o] IS DISTINCT FROM own_lanes[i] OR places[a] < places[o]) THEN
                pick := a;
                next[any_lanes[i]] := a + 1;
            ELSIF lanes[o] = own_lanes[i] THEN
                pick := o;
                next[own_lanes[i]] := o + 1;
            ELSE
                EXIT;
            END IF;
            count := count + 1;
            given := given || pick;
            given_to := given_to || i;
            part_used[parts[pick] + 1] := true;
            leased := leased OR leases[i] IS NOT NULL;
        END LOOP;
        IF count = 0 THEN
            IF ids[queues[i]] IS NULL AND kind <> 'f' THEN
                RETURN NEXT refused(ops[i], 'no_queue');
            ELSE
                RETURN NEXT nothing(ops[i], ids[queues[i]], senders[i]);
            END IF;
        END IF;
    END LOOP;
    FOR p IN 0..2 LOOP
        IF part_used[p + 1] THEN
            RETURN QUERY SELECT * FROM hand_out(at_ms, p::smallint, leased, given, given_to, places, tids, parts, ids, ops,
                queues, readers, senders, leases);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION pop_step("char", bigint, bigint, bigint[], int[], int[], int[], int[], bigint[], bigint[], int[], int[], int, int[], int[], int[], bigint[], bigint[]) IS
'POPs of one kind (p by queue, b by queue and sender, f by sender): every lane is read once for all who draw on it, then dealt out in order, then taken by place. Nobody is waited for. Plan: the lanes'' index scans; Tid Scans.';

CREATE FUNCTION peek_step(at_ms bigint, ids bigint[], ops int[], queues int[], readers int[], senders int[], wants bigint[],
    any_floors bigint[], own_floors bigint[]) RETURNS SETOF answer LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF array_position(ids, null) IS NOT NULL THEN
        RETURN QUERY SELECT r.* FROM unnest(ops, queues) AS u(op, queue), refused(u.op, 'no_queue') AS r
            WHERE u.queue <> 0 AND ids[u.queue] IS NULL;
    END IF;
    RETURN QUERY
        SELECT (shown(u.op, h.m, q.name)).*
        FROM unnest(ops, queues, readers, senders, wants, any_floors, own_floors)
                AS u(op, queue, reader, sender, want, any_floor, own_floor),
            LATERAL (
                SELECT * FROM (
                    SELECT * FROM queue_lane(at_ms, 0, ids[u.queue], u.any_floor, u.want)
                    UNION ALL SELECT * FROM queue_lane(at_ms, u.reader, ids[u.queue], u.own_floor, u.want)) AS l
                ORDER BY l.place LIMIT u.want) AS h,
            LATERAL (SELECT name FROM queue WHERE id = (h.m).queue_id) AS q
        WHERE u.sender IS NULL;
    IF array_remove(senders, null) <> '{}' THEN
        RETURN QUERY
            SELECT (shown(u.op, h.m, q.name)).*
            FROM unnest(ops, queues, readers, senders, wants, any_floors, own_floors)
                    AS u(op, queue, reader, sender, want, any_floor, own_floor),
                LATERAL (
                    SELECT * FROM (
                        SELECT * FROM both_lane(at_ms, 0, ids[u.queue], u.sender, u.any_floor, u.want)
                        UNION ALL SELECT * FROM both_lane(at_ms, u.reader, ids[u.queue], u.sender, u.own_floor, u.want)) AS l
                    ORDER BY l.place LIMIT u.want) AS h,
                LATERAL (SELECT name FROM queue WHERE id = (h.m).queue_id) AS q
            WHERE u.sender IS NOT NULL AND u.any_floor IS NOT NULL;
        RETURN QUERY
            SELECT (shown(u.op, h.m, q.name)).*
            FROM unnest(ops, readers, senders, wants, any_floors) AS u(op, reader, sender, want, any_floor),
                LATERAL (
                    SELECT * FROM (
                        SELECT * FROM sender_lane(at_ms, 0, u.sender, u.want)
                        UNION ALL SELECT * FROM sender_lane(at_ms, u.reader, u.sender, u.want)) AS l
                    ORDER BY l.place LIMIT u.want) AS h,
                LATERAL (SELECT name FROM queue WHERE id = (h.m).queue_id) AS q
            WHERE u.sender IS NOT NULL AND u.any_floor IS NULL;
    END IF;
END $$;
COMMENT ON FUNCTION peek_step(bigint, bigint[], int[], int[], int[], int[], bigint[], bigint[], bigint[]) IS
'PEEKs; a request without a row found nothing. A null floor says: by sender alone. Plan: the lanes'' index scans, queue_pkey.';

CREATE FUNCTION ack_step(at_ms bigint, ops int[], accounts int[], messages bigint[], receipts bigint[]) RETURNS SETOF answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH leased AS MATERIALIZED (
        SELECT id, holder_id, receipt FROM message
        WHERE ring = 2 AND id = ANY(messages) AND due_ms > at_ms AND holder_id IS NOT NULL FOR UPDATE SKIP LOCKED),
    matched AS MATERIALIZED (
        SELECT DISTINCT ON (u.id) u.op, u.id
        FROM unnest(ops, accounts, messages, receipts) WITH ORDINALITY AS u(op, account, id, receipt, at)
            JOIN leased l ON l.id = u.id
                AND CASE WHEN u.receipt IS NULL THEN l.holder_id = u.account ELSE l.receipt = u.receipt END
        ORDER BY u.id, u.at),
    gone AS (DELETE FROM message WHERE ring = 2 AND id = ANY(ARRAY(SELECT id FROM matched)))
    SELECT u.op, 'i'::"char", count(m.id), null::bigint, null::int, null::int, null::bigint, null::int, null::bigint,
        null::bigint, null::bigint, null::text, null::text, null::text, null::bytea, null::bytea, null::bigint[]
    FROM (SELECT DISTINCT op FROM unnest(ops) AS o(op)) AS u LEFT JOIN matched m ON m.op = u.op GROUP BY u.op;
END $$;
COMMENT ON FUNCTION ack_step(bigint, int[], int[], bigint[], bigint[]) IS
'ACKs: of several for one message the first counts. Plan: message_aside_by_id.';

CREATE FUNCTION queues_with(at_ms bigint, recipient int) RETURNS SETOF bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY WITH RECURSIVE hop(queue) AS (
        (SELECT queue_id FROM message
            WHERE recipient_id = recipient AND due_ms IS NULL AND (expires_ms IS NULL OR expires_ms > at_ms)
            ORDER BY recipient_id, queue_id LIMIT 1)
        UNION ALL
        SELECT (SELECT queue_id FROM message
            WHERE recipient_id = recipient AND due_ms IS NULL AND (expires_ms IS NULL OR expires_ms > at_ms)
                AND queue_id > hop.queue
            ORDER BY recipient_id, queue_id LIMIT 1)
        FROM hop WHERE hop.queue IS NOT NULL
    )
    SELECT queue FROM hop WHERE queue IS NOT NULL;
END $$;
COMMENT ON FUNCTION queues_with(bigint, int) IS
'Queues that hold something for one recipient (0: for anyone), one seek for each. Plan: message_by_queue.';

CREATE FUNCTION readable_step(at_ms bigint, ops int[], readers int[]) RETURNS SETOF answer LANGUAGE plpgsql STABLE AS $$
DECLARE for_anyone bigint[] := ARRAY(SELECT queues_with(at_ms, 0));
BEGIN
    RETURN QUERY SELECT u.op, 'r'::"char", q.id, null::bigint, null::int, null::int, null::bigint, null::int,
        null::bigint, null::bigint, null::bigint, q.name, null::text, null::text, null::bytea, null::bytea, null::bigint[]
        FROM unnest(ops, readers) AS u(op, reader),
            LATERAL (SELECT unnest(for_anyone) AS id UNION SELECT queues_with(at_ms, u.reader)) AS r,
            LATERAL (SELECT id, name FROM queue WHERE queue.id = r.id) AS q
        ORDER BY u.op, q.id;
END $$;
COMMENT ON FUNCTION readable_step(bigint, int[], int[]) IS
'QREADABLEs: what is for anyone is found once for all who ask. Plan: queues_with, queue_pkey.';

CREATE FUNCTION create_step(ops int[], names text[]) RETURNS SETOF answer LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..cardinality(ops) LOOP
        RETURN NEXT numbered(ops[i], add_queue(names[i]));
    END LOOP;
END $$;
COMMENT ON FUNCTION create_step(int[], text[]) IS 'QCREATEs without options. Plan: queue_name_key.';
