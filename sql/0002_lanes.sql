-- Lanes: the ready messages that one kind of read may have, in reading order.
--
-- Three kinds of lane, one index each. Every lane function is one query that PostgreSQL inlines into its caller, so a
-- read is as many index seeks as there are parts of the table and nothing else. The plan: for each part an Index
-- Scan on the lane's index, stopped by the LIMIT after `want` rows.
--
-- `from_place` is a floor: the caller knows that nothing of the ring below it is left in this lane. It says nothing
-- about what is kept aside, which is read from its start.

SET LOCAL search_path = posthaste;

CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
COMMENT ON FUNCTION now_ms() IS
'Milliseconds since 1970 by the clock of the database, the only one that timers follow.';

CREATE FUNCTION after(at_ms bigint, ms bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT at_ms + ms + 1
$$;
COMMENT ON FUNCTION after(bigint, bigint) IS
'When so much time is over that begins at a millisecond, of which some has passed already: without one more it would end early.';

CREATE FUNCTION noted_floor() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- PL/pgSQL, whose plan is kept: one in SQL would be planned anew in each transaction.
    RETURN coalesce((SELECT place FROM ring_floor ORDER BY place DESC LIMIT 1), 0);
END $$;
COMMENT ON FUNCTION noted_floor() IS
'A floor of all lanes, for who brings none along. While somebody keeps the ring from turning, all that is gone stands below it. Plan: ring_floor_pkey, backwards.';

CREATE TYPE lane_row AS (
    place bigint,
    part smallint,
    tid tid,
    queue_id bigint,
    sender_id int,
    bytes bigint
);
COMMENT ON TYPE lane_row IS
'Where a message stands in a lane and in the table, whose it is, and what it takes of an answer. No more, since whoever reads a lane reads more of it than it gives.';

CREATE FUNCTION content_bytes(headers bytea, body bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(body)::bigint + coalesce(octet_length(headers), 0)
$$;
COMMENT ON FUNCTION content_bytes(bytea, bytea) IS 'What a message takes of an answer. Inlined, so that a length is read and no body.';

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
'Messages of a queue to one recipient (0: to anyone). Plan: message_by_queue.';

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
'Messages of a queue from one sender to one recipient (0: to anyone). Plan: message_by_both.';

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
'Messages from one sender to one recipient (0: to anyone), of all queues. Plan: message_by_sender on each part.';

-- Whoever plans for a small table, or for one in which few queues hold everything, takes whatever index is smallest, for what
-- is looked for must turn up soon; and the plan stays when the table grows. So what has no order of its own asks for that of the one
-- index that serves, over a range of one queue, since of a queue that is given exactly the order would say nothing.

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
'All messages of a queue. Inlined. Plan: message_by_both on each part, message_aside_by_queue_due.';
