-- Lists of queues in pieces.
--
-- A list was made of all queues in one call: at 100,000 of them seconds in which the batch it belongs to kept its locks. The
-- middleware asks for a piece at a time now, so here are the queues above an id, at most so many. They are counted by one
-- statement rather than by a function for each: an empty queue costs a seek in each part of the table and nothing else. The
-- counts stand in a subquery of their own, which no planner turns into a join that reads the parts from end to end.

SET LOCAL search_path = posthaste;

CREATE FUNCTION list_queues(op int, at_ms bigint, after bigint, want bigint) RETURNS SETOF answer
LANGUAGE sql STABLE AS $$
    SELECT list_queues.op, 'q'::"char", page.id, null::bigint, null::int, null::int, null::bigint, null::int, null::bigint,
        null::bigint, null::bigint, page.name, null::text, null::text, null::bytea, null::bytea,
        ARRAY[s.messages, s.bytes, CASE WHEN s.oldest_ms IS NULL THEN 0 ELSE greatest(at_ms - s.oldest_ms, 0) END]
    FROM (SELECT q.id, q.name FROM queue q WHERE q.id > after ORDER BY q.id LIMIT want) AS page,
        LATERAL (
            SELECT count(*) AS messages, coalesce(sum(octet_length(every.body)), 0)::bigint AS bytes,
                (min(ARRAY[every.id, every.sent_ms]))[2] AS oldest_ms
            FROM (
                SELECT id, sent_ms, body FROM message WHERE queue_id = page.id AND due_ms IS NULL
                UNION ALL
                SELECT id, sent_ms, body FROM message WHERE ring = 2 AND queue_id = page.id AND due_ms IS NOT NULL
            ) AS every
        ) AS s
    ORDER BY page.id
$$;
COMMENT ON FUNCTION list_queues(int, bigint, bigint, bigint) IS
'Queues above an id with what they hold, by id, at most so many. Costs as much as these hold messages. Plan: queue_pkey; for each queue message_by_both and message_aside_by_queue_due.';

CREATE OR REPLACE FUNCTION one(at_ms bigint, part smallint, op int, kind "char", account int, queue_name text, queue_id bigint,
    other_name text, other_id bigint, who text, key bytea, header bytea, body bytea, a bigint, b bigint, c bigint,
    d bigint, flags int) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    q queue;
    m message;
    sender int;
    number bigint;
    moved answer;
BEGIN
    -- A queue that must exist, made perhaps by this very batch.
    IF queue_name IS NOT NULL AND kind <> 'c' THEN
        SELECT * INTO q FROM queue WHERE id = one.queue_id;
        IF q.id IS NULL THEN
            RETURN NEXT refused(op, 'no_queue');
            RETURN;
        END IF;
    END IF;
    CASE kind
    WHEN 's' THEN
        RETURN QUERY SELECT * FROM send_one(op, at_ms, part, account, q, body, who, header, a, b, c::int, key);
    WHEN 'p', 'k' THEN
        IF who IS NOT NULL THEN
            sender := (SELECT id FROM account WHERE name = who);
            -- Its first message must find who waits for it.
            IF sender IS NULL AND flags & 4 <> 0 THEN
                sender := meet(who);
            ELSIF sender IS NULL THEN
                sender := 0;
            END IF;
        END IF;
        IF kind = 'p' THEN
            RETURN QUERY SELECT * FROM pop_one(op, at_ms, account, q.id, sender, flags & 1 <> 0, flags & 2 <> 0, a, b, key,
                flags & 16 <> 0);
        ELSE
            RETURN QUERY SELECT * FROM peek_one(op, at_ms, account, q.id, sender, flags & 1 <> 0, flags & 2 <> 0, a);
        END IF;
    WHEN 'n' THEN
        m := held(at_ms, account, a, b);
        IF m.id IS NOT NULL THEN
            RETURN QUERY SELECT * FROM give_back(m, at_ms, c, 'nack');
        END IF;
        RETURN NEXT numbered(op, (m.id IS NOT NULL)::int);
    WHEN 'x' THEN
        m := held(at_ms, account, a, b);
        IF m.id IS NOT NULL THEN
            UPDATE message SET due_ms = at_ms + c WHERE ring = 2 AND id = m.id;
        END IF;
        RETURN NEXT numbered(op, (m.id IS NOT NULL)::int);
    WHEN 'c' THEN
        IF other_name = queue_name THEN
            RETURN NEXT refused(op, 'own_dead_letters');
            RETURN;
        END IF;
        number := add_queue(queue_name);
        -- An unnamed queue may not be named as its own grave either.
        IF other_name = number::text AND queue_name IS NULL THEN
            DELETE FROM queue WHERE id = number;
            RETURN NEXT refused(op, 'own_dead_letters');
            RETURN;
        END IF;
        IF other_name IS NOT NULL THEN
            PERFORM add_queue(other_name);
        END IF;
        IF flags & 8 <> 0 THEN
            UPDATE queue SET messages_max = a, bytes_max = b, ttl_ms = c, dead_letter = other_name,
                dead_after = d, forbid_self = flags & 1 <> 0, only_known = flags & 2 <> 0 WHERE id = number;
            PERFORM set_config('posthaste.room', '', true); -- it was counted for other limits
        END IF;
        RETURN NEXT numbered(op, number);
    WHEN 'u' THEN RETURN NEXT numbered(op, empty_queue(q.id));
    WHEN 'v' THEN
        IF other_name IS NOT NULL AND NOT EXISTS (SELECT FROM queue WHERE id = other_id) THEN
            RETURN NEXT refused(op, 'no_other_queue');
        ELSE
            RETURN QUERY SELECT * FROM redrive(op, q.id, other_id);
        END IF;
    WHEN 'i' THEN RETURN NEXT describe_queue(op, at_ms, q);
    WHEN 'l' THEN
        RETURN QUERY SELECT * FROM list_queues(op, at_ms, coalesce(a, 0), b);
    WHEN 'b' THEN RETURN QUERY SELECT * FROM browse(op, q.id, a, b);
    WHEN 't' THEN
        RETURN QUERY SELECT op, 'a'::"char", id::bigint, null::bigint, null::int, null::int, null::bigint, null::int,
            null::bigint, null::bigint, null::bigint, name, null::text, null::text, null::bytea, null::bytea,
            null::bigint[] FROM posthaste.account WHERE known ORDER BY id;
    END CASE;
END $$;
COMMENT ON FUNCTION one(bigint, smallint, int, "char", int, text, bigint, text, bigint, text, bytea, bytea, bytea, bigint, bigint, bigint, bigint, int) IS
'One request by the rules: s SEND, p POP, k PEEK, n NACK, x EXTEND, c QCREATE, u QPURGE, v QREDRIVE, i QINFO, l QLIST, b QBROWSE, t ACCOUNTS.';

REVOKE EXECUTE ON FUNCTION list_queues(int, bigint, bigint, bigint) FROM PUBLIC;
