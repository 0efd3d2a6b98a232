-- Lanes: the ready messages that one kind of read may return, in reading order.
--
-- There are three kinds of lane, with one index each. Every lane function is one query that PostgreSQL inlines into its
-- caller, so a read is one index seek for each part of the table and nothing else. The plan: for each part an Index
-- Scan on the lane's index, stopped by the LIMIT after `want` rows.
--
-- `from_place` is a floor: the caller knows that the ring holds nothing of this lane below it. It does not apply to
-- message_aside, which is read from the lane's start.

SET LOCAL search_path = posthaste;

CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
COMMENT ON FUNCTION now_ms() IS
'Milliseconds since 1970 by the database''s clock, the only clock that timers use.';

CREATE FUNCTION after(at_ms bigint, ms bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT at_ms + ms + 1
$$;
COMMENT ON FUNCTION after(bigint, bigint) IS
'The time at which a period has ended that began within the millisecond at_ms. One millisecond is added, since a part of at_ms may have passed already and the period would end early.';

CREATE FUNCTION noted_floor() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- In PL/pgSQL, which caches the plan: a function in SQL would be planned anew in each transaction.
    RETURN coalesce((SELECT place FROM ring_floor ORDER BY place DESC LIMIT 1), 0);
END $$;
COMMENT ON FUNCTION noted_floor() IS
'A floor of all lanes, for a caller that knows none. While an open transaction keeps the ring from turning, the rows that have been removed are below it. Plan: ring_floor_pkey, backwards.';

CREATE TYPE lane_row AS (
    place bigint,
    part smallint,
    tid tid,
    queue_id bigint,
    sender_id int,
    bytes bigint
);
COMMENT ON TYPE lane_row IS
'A message''s place in its lane and in the table, its queue and sender, and its size in a reply. No more, since a read looks at more rows of a lane than it returns.';

CREATE FUNCTION content_bytes(headers bytea, body bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(body)::bigint + coalesce(octet_length(headers), 0)
$$;
COMMENT ON FUNCTION content_bytes(bytea, bytea) IS 'The size of a message in a reply: body and headers, in bytes. Inlined, so that lengths are read and no bodies.';

CREATE FUNCTION queue_lane(at_ms bigint, recipient int, queue bigint, from_place bigint, want bigint)
RETURNS SETOF lane_row LANGUAGE sql STABLE AS $$
    (SELECT place, 0::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_0
        WHERE recipient_id = recipient AND queue_id = queue AND sender_id > 0 AND due_ms IS NULL AND place >= from_place
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    UNION ALL
    (SELECT place, 1::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_1
        WHERE recipient_id = recipient AND queue_id = queue AND sender_id > 0 AND due_ms IS NULL AND place >= from_place
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    UNION ALL
    (SELECT place, 2::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_aside
        WHERE recipient_id = recipient AND queue_id = queue AND sender_id > 0 AND due_ms IS NULL
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    ORDER BY place LIMIT want
$$;
COMMENT ON FUNCTION queue_lane(bigint, int, bigint, bigint, bigint) IS
'Ready messages of a queue to one recipient (0: to anyone). Plan: message_by_queue.';

CREATE FUNCTION both_lane(at_ms bigint, recipient int, queue bigint, sender int, from_place bigint, want bigint)
RETURNS SETOF lane_row LANGUAGE sql STABLE AS $$
    (SELECT place, 0::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_0
        WHERE queue_id = queue AND sender_id = sender AND recipient_id = recipient AND due_ms IS NULL AND place >= from_place
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    UNION ALL
    (SELECT place, 1::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_1
        WHERE queue_id = queue AND sender_id = sender AND recipient_id = recipient AND due_ms IS NULL AND place >= from_place
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    UNION ALL
    (SELECT place, 2::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_aside
        WHERE queue_id = queue AND sender_id = sender AND recipient_id = recipient AND due_ms IS NULL
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    ORDER BY place LIMIT want
$$;
COMMENT ON FUNCTION both_lane(bigint, int, bigint, int, bigint, bigint) IS
'Ready messages of a queue from one sender to one recipient (0: to anyone). Plan: message_by_both.';

CREATE FUNCTION sender_lane(at_ms bigint, recipient int, sender int, from_place bigint, want bigint)
RETURNS SETOF lane_row LANGUAGE sql STABLE AS $$
    (SELECT place, 0::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_0
        WHERE sender_id = sender AND recipient_id = recipient AND queue_id > 0 AND due_ms IS NULL AND place >= from_place
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    UNION ALL
    (SELECT place, 1::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_1
        WHERE sender_id = sender AND recipient_id = recipient AND queue_id > 0 AND due_ms IS NULL AND place >= from_place
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    UNION ALL
    (SELECT place, 2::smallint, ctid, queue_id, sender_id, content_bytes(headers, body) FROM message_aside
        WHERE sender_id = sender AND recipient_id = recipient AND queue_id > 0 AND due_ms IS NULL
            AND (expires_ms IS NULL OR expires_ms > at_ms)
        ORDER BY place LIMIT want)
    ORDER BY place LIMIT want
$$;
COMMENT ON FUNCTION sender_lane(bigint, int, int, bigint, bigint) IS
'Ready messages from one sender to one recipient (0: to anyone), of all queues. Plan: message_by_sender on each part.';

-- For a small table, or one in which few queues hold everything, the planner takes the smallest index, since it expects a
-- match soon; and the plan is kept when the table grows. So a query that needs no order asks for the order of the one
-- index that is right for it. It names the queue as a range, since with an equality the planner ignores queue_id there.

CREATE FUNCTION stored(queue bigint) RETURNS TABLE (place bigint, part smallint, tid tid, id bigint, due_ms bigint, holder_id int, sent_ms bigint, headers bytea, body bytea) LANGUAGE sql STABLE AS $$
    (SELECT place, ring, ctid, id, due_ms, holder_id, sent_ms, headers, body FROM message WHERE ring IN (0, 1) AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
            AND place >= noted_floor()
        ORDER BY queue_id, sender_id, recipient_id, place)
    UNION ALL
    (SELECT place, ring, ctid, id, due_ms, holder_id, sent_ms, headers, body FROM message WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NULL
        ORDER BY queue_id, sender_id, recipient_id, place)
    UNION ALL
    (SELECT place, ring, ctid, id, due_ms, holder_id, sent_ms, headers, body FROM message WHERE ring = 2 AND queue_id >= queue AND queue_id <= queue AND due_ms IS NOT NULL
        ORDER BY queue_id, id)
$$;
COMMENT ON FUNCTION stored(bigint) IS
'All messages of a queue: ready, leased and delayed. Inlined. Plan: message_by_both on each part, message_aside_by_queue_due.';
