-- The batch: everything that waits in a middleware, applied in one call and one transaction.
--
-- A batch is a sequence of steps. Requests of different connections are concurrent, so the middleware may order them
-- as it likes; those of one connection stand in steps in the order they were sent. Within a batch a queue is its
-- position in `names`; 0 is none.

SET LOCAL search_path = posthaste;

CREATE FUNCTION lock_queues(names text[], wanted boolean[], OUT ids bigint[], OUT guarded boolean, OUT part smallint,
    OUT high bigint) LANGUAGE plpgsql AS $$
DECLARE
    to_lock bigint[];
    kept bigint[];
BEGIN
    SELECT array_agg(q.id), array_agg(q.id) FILTER (WHERE n.wanted AND q.id IS NOT NULL), coalesce(bool_or(q.guarded), false)
        INTO ids, to_lock, guarded
        FROM unnest(names, wanted) AS n(name, wanted) LEFT JOIN LATERAL
            (SELECT q.id, q.guarded FROM queue q WHERE q.name = n.name) AS q ON true;
    kept := ARRAY(SELECT id FROM queue WHERE id = ANY(to_lock) ORDER BY id FOR NO KEY UPDATE);
    -- One that was deleted while we waited for its lock is gone.
    IF cardinality(kept) < cardinality(to_lock) THEN
        ids := ARRAY(SELECT CASE WHEN u.id = ANY(kept) OR NOT u.wanted THEN u.id END
            FROM unnest(ids, wanted) AS u(id, wanted));
    END IF;
    -- After the locks: whatever is appended to these queues from now on has a higher id.
    SELECT ring.current, message_id.last_value INTO part, high FROM ring, message_id;
END $$;
COMMENT ON FUNCTION lock_queues(text[], boolean[]) IS
'The ids of queues, null for unknown ones, with the rows of those to be changed locked in the order of their ids; where to append, and the newest id. Plan: queue_name_key, queue_pkey.';

CREATE FUNCTION with_made(ids bigint[], names text[], made_at int[]) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT CASE WHEN u.id IS NULL AND (u.at = ANY(made_at) OR 0 = ANY(made_at))
            THEN (SELECT q.id FROM queue q WHERE q.name = u.name AND (u.at = ANY(made_at) OR q.name = q.id::text)) ELSE u.id END
        FROM unnest(ids, names) WITH ORDINALITY AS u(id, name, at) ORDER BY u.at);
END $$;
COMMENT ON FUNCTION with_made(bigint[], text[], int[]) IS
'The ids of a batch''s queues after it has made some; position 0 stands for one named by its id. Plan: queue_name_key.';

CREATE FUNCTION one(at_ms bigint, part smallint, op int, kind "char", account int, queue_name text, queue_id bigint,
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
        END IF;
        RETURN NEXT numbered(op, number);
    WHEN 'd' THEN RETURN QUERY SELECT * FROM remove_queue(op, q.id);
    WHEN 'u' THEN RETURN NEXT numbered(op, empty_queue(q.id));
    WHEN 'v' THEN
        IF other_name IS NOT NULL AND NOT EXISTS (SELECT FROM queue WHERE id = other_id) THEN
            RETURN NEXT refused(op, 'no_other_queue');
        ELSE
            RETURN QUERY SELECT * FROM redrive(op, q.id, other_id);
        END IF;
    WHEN 'i' THEN RETURN NEXT describe_queue(op, at_ms, q);
    WHEN 'l' THEN
        -- In FROM, where it is called once for a queue and not once for each column.
        RETURN QUERY SELECT d.* FROM queue AS every, LATERAL describe_queue(op, at_ms, every) AS d ORDER BY every.id;
    WHEN 'b' THEN RETURN QUERY SELECT * FROM browse(op, q.id, a, b);
    WHEN 't' THEN
        RETURN QUERY SELECT op, 'a'::"char", id::bigint, null::bigint, null::int, null::int, null::bigint, null::int,
            null::bigint, null::bigint, null::bigint, name, null::text, null::text, null::bytea, null::bytea,
            null::bigint[] FROM posthaste.account WHERE known ORDER BY id;
    END CASE;
END $$;
COMMENT ON FUNCTION one(bigint, smallint, int, "char", int, text, bigint, text, bigint, text, bytea, bytea, bytea, bigint, bigint, bigint, bigint, int) IS
'One request by the rules: s SEND, p POP, k PEEK, n NACK, x EXTEND, c QCREATE, d QDELETE, u QPURGE, v QREDRIVE, i QINFO, l QLIST, b QBROWSE, t ACCOUNTS.';

CREATE FUNCTION apply(
    given_ms bigint,
    names text[], locked boolean[], made text[], met_at int[], met text[],
    step_kinds "char"[], step_first int[], step_last int[], step_lane_first int[], step_lane_last int[],
    -- s: SEND
    s_op int[], s_queue int[], s_sender int[], s_recipient int[], s_delay bigint[], s_ttl bigint[], s_priority int[],
    s_headers bytea[], s_body bytea[],
    -- p: POP by queue, b: by queue and sender, f: by sender; k: PEEK
    r_op int[], r_queue int[], r_reader int[], r_sender int[], r_want bigint[], r_lease bigint[], r_any int[], r_own int[],
    -- the lanes that POPs draw on
    l_queue int[], l_sender int[], l_recipient int[], l_floor bigint[], l_want bigint[],
    -- a: ACK; r: QREADABLE; c: QCREATE
    a_op int[], a_account int[], a_message bigint[], a_receipt bigint[],
    -- o: everything else
    o_op int[], o_kind "char"[], o_account int[], o_queue int[], o_other int[], o_who text[], o_key bytea[],
    o_headers bytea[], o_body bytea[], o_a bigint[], o_b bigint[], o_c bigint[], o_d bigint[], o_flags int[])
RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off AS $$
DECLARE
    at_ms bigint := coalesce(given_ms, now_ms());
    ids bigint[];
    guarded boolean;
    part smallint;
    high bigint;
    f int;
    t int;
    lf int;
    lt int;
    here answer;
BEGIN
    -- Names about to exist, sorted, before any queue: whoever makes the same one waits for nothing else of ours.
    IF met <> '{}' THEN
        PERFORM meet(who) FROM (
            SELECT DISTINCT u.who FROM unnest(met_at, met) AS u(queue, who)
            WHERE names[u.queue] = ANY(made) OR EXISTS (SELECT FROM queue WHERE name = names[u.queue] AND NOT only_known)
            ORDER BY u.who) AS sorted;
    END IF;
    IF made <> '{}' THEN
        PERFORM lock_name(name) FROM (SELECT DISTINCT u.name FROM unnest(made) AS u(name) ORDER BY u.name) AS sorted;
    END IF;
    SELECT * INTO ids, guarded, part, high FROM lock_queues(names, locked);

    FOR s IN 1..cardinality(step_kinds) LOOP
        f := step_first[s];
        t := step_last[s];
        lf := step_lane_first[s];
        lt := step_lane_last[s];
        CASE step_kinds[s]
        WHEN 's' THEN
            IF guarded THEN
                RETURN QUERY SELECT * FROM send_step_guarded(at_ms, part, ids, s_op[f:t], s_queue[f:t],
                    s_sender[f:t], s_recipient[f:t], s_delay[f:t], s_ttl[f:t], s_priority[f:t], s_headers[f:t], s_body[f:t]);
            ELSE
                RETURN QUERY SELECT * FROM send_step(at_ms, part, ids, s_op[f:t], s_queue[f:t],
                    s_sender[f:t], s_recipient[f:t], s_delay[f:t], s_ttl[f:t], s_priority[f:t], s_headers[f:t], s_body[f:t]);
            END IF;
        WHEN 'p', 'b', 'f' THEN
            RETURN QUERY SELECT * FROM pop_step(step_kinds[s], at_ms, high, ids, r_op[f:t], r_queue[f:t],
                r_reader[f:t], r_sender[f:t], r_want[f:t], r_lease[f:t], r_any[f:t], r_own[f:t],
                lf, l_queue[lf:lt], l_sender[lf:lt], l_recipient[lf:lt], l_floor[lf:lt],
                l_want[lf:lt]);
        WHEN 'k' THEN
            RETURN QUERY SELECT * FROM peek_step(at_ms, ids, r_op[f:t], r_queue[f:t],
                r_reader[f:t], r_sender[f:t], r_want[f:t], ARRAY(SELECT l_floor[lf - 1 + u.l] FROM unnest(r_any[f:t]) AS u(l)),
                ARRAY(SELECT l_floor[lf - 1 + u.l] FROM unnest(r_own[f:t]) AS u(l)));
        WHEN 'a' THEN
            RETURN QUERY SELECT * FROM ack_step(at_ms, a_op[f:t], a_account[f:t], a_message[f:t], a_receipt[f:t]);
        WHEN 'r' THEN
            RETURN QUERY SELECT * FROM readable_step(at_ms, a_op[f:t], a_account[f:t]);
        WHEN 'c' THEN
            RETURN QUERY SELECT r.* FROM create_step(o_op[f:t], ARRAY(SELECT names[u.q] FROM unnest(o_queue[f:t]) AS u(q))) AS r;
            IF names <> '{}' THEN
                ids := with_made(ids, names, o_queue[f:t]);
            END IF;
        WHEN 'o' THEN
            FOR i IN f..t LOOP
                FOR here IN SELECT * FROM one(at_ms, part, o_op[i], o_kind[i], o_account[i], names[o_queue[i]], ids[o_queue[i]],
                    names[o_other[i]], ids[o_other[i]], o_who[i], o_key[i], o_headers[i], o_body[i], o_a[i], o_b[i], o_c[i],
                    o_d[i], o_flags[i])
                LOOP
                    RETURN NEXT here;
                    -- The batch goes on with the queues as they are now.
                    IF here.kind = 'g' THEN
                        ids := array_replace(ids, here.queue_id, null);
                    END IF;
                END LOOP;
                IF o_kind[i] = 'c' THEN
                    ids := with_made(ids, names, ARRAY[o_queue[i], o_other[i]]);
                    guarded := guarded OR EXISTS (SELECT FROM queue q WHERE q.id = ANY(ids) AND q.guarded);
                END IF;
            END LOOP;
        END CASE;
    END LOOP;
END $$;
