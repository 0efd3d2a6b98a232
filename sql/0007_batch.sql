-- The batch: all requests that wait in a middleware, applied in one call and one transaction.
--
-- A batch is a sequence of steps. Requests of different connections are concurrent, so the middleware may order them
-- as it likes; those of one connection are in steps in the order in which they were sent. Within a batch a queue is its
-- position in `names`; 0 is none.

SET LOCAL search_path = posthaste;

CREATE FUNCTION current_part() RETURNS smallint LANGUAGE sql AS $$
    SELECT (pg_sequence_last_value('posthaste.ring_turn') % 2)::smallint
$$;
COMMENT ON FUNCTION current_part() IS
'The part of the ring that is appended to. The value may be slightly out of date, which does no harm, since reads look in both parts.';

CREATE FUNCTION newest_id() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(pg_sequence_last_value('posthaste.message_id'), 0)
$$;
COMMENT ON FUNCTION newest_id() IS
'The highest id that any message has got so far. Messages that are appended to a queue after its row was locked get higher ones.';

CREATE FUNCTION with_made(ids bigint[], names text[], made_at int[]) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- Of queues named by their ids only this transaction's: another may have created one since the rows were locked.
    RETURN ARRAY(
        SELECT CASE WHEN u.id IS NULL AND (u.at = ANY(made_at) OR 0 = ANY(made_at))
            THEN (SELECT q.id FROM queue q
                WHERE q.name = u.name AND (u.at = ANY(made_at) OR q.name = q.id::text AND q.xmin = pg_current_xact_id()::xid))
            ELSE u.id END
        FROM unnest(ids, names) WITH ORDINALITY AS u(id, name, at) ORDER BY u.at);
END $$;
COMMENT ON FUNCTION with_made(bigint[], text[], int[]) IS
'The ids of a batch''s queues after it has created some; in made_at, position 0 stands for a queue named by its id. Plan: queue_name_key.';

-- What a, b, c, d and flags are, by kind:
--   s: delay, TTL and priority; p, k: COUNT, for p also the lease and the queue that was waited for, flags 1: NOTOWN,
--   2: BROADCAST, 4: COUNT was given; n, x: message, receipt, and the delay or lease; c: MAXMSGS, MAXBYTES, TTL and AFTER,
--   flags 1: FORBIDSELF, 2: STRICT, 4: options are given; l, b: the id to list from, and how many at most.
CREATE FUNCTION one(at_ms bigint, part smallint, op int, kind "char", account int, queue_name text, queue_id bigint,
    other_name text, other_id bigint, account_name text, key bytea, header bytea, body bytea, a bigint, b bigint, c bigint,
    d bigint, flags int) RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    q queue;
    m message;
    sender int;
    number bigint;
    moved answer;
BEGIN
    -- The queue must exist; this batch may have created it.
    IF queue_name IS NOT NULL AND kind <> 'c' THEN
        SELECT * INTO q FROM queue WHERE id = one.queue_id;
        -- A POP that waited for a queue gets nothing from a later queue of the same name.
        IF q.id IS NULL OR kind = 'p' AND q.id <> c THEN
            RETURN NEXT refused(op, 'no_queue');
            RETURN;
        END IF;
    END IF;
    CASE kind
    WHEN 's' THEN
        RETURN QUERY SELECT * FROM send_one(op, at_ms, part, account, q, body, account_name, header, a, b, c::int, key);
    WHEN 'p', 'k' THEN
        IF account_name IS NOT NULL THEN
            sender := (SELECT id FROM account WHERE name = account_name);
            sender := coalesce(sender, 0);
        END IF;
        IF kind = 'p' THEN
            RETURN QUERY SELECT * FROM pop_one(op, at_ms, account, q.id, sender, flags & 1 <> 0, flags & 2 <> 0, a, b, key,
                flags & 4 <> 0);
        ELSE
            RETURN QUERY SELECT * FROM peek_one(op, at_ms, account, q.id, sender, flags & 1 <> 0, flags & 2 <> 0, a);
        END IF;
    WHEN 'n' THEN
        m := held(at_ms, account, a, b);
        IF m.id IS NOT NULL THEN
            RETURN QUERY SELECT * FROM give_back(m, at_ms, c, 'nack', at_ms + 1000);
        END IF;
        RETURN NEXT numbered(op, (m.id IS NOT NULL)::int);
    WHEN 'x' THEN
        m := held(at_ms, account, a, b);
        IF m.id IS NOT NULL THEN
            UPDATE message SET due_ms = after(at_ms, c) WHERE ring = 2 AND id = m.id;
        END IF;
        RETURN NEXT numbered(op, (m.id IS NOT NULL)::int);
    WHEN 'c' THEN
        IF other_name = queue_name THEN
            RETURN NEXT refused(op, 'own_dead_letters');
            RETURN;
        END IF;
        number := add_queue(queue_name);
        -- An unnamed queue may not be its own dead-letter queue either: it takes the next id.
        IF other_name = number::text AND queue_name IS NULL THEN
            DELETE FROM queue WHERE id = number;
            number := add_queue(null);
        END IF;
        IF other_name IS NOT NULL THEN
            PERFORM add_queue(other_name);
        END IF;
        IF flags & 4 <> 0 THEN
            UPDATE queue SET messages_max = a, bytes_max = b, ttl_ms = c, dead_letter = other_name,
                dead_after = d, forbid_self = flags & 1 <> 0, only_known = flags & 2 <> 0 WHERE id = number;
            PERFORM set_config('posthaste.room', '', true); -- the room was counted for other limits
        END IF;
        RETURN NEXT numbered(op, number);
    WHEN 'u' THEN
        number := purge_queue(q.id);
        RETURN NEXT CASE WHEN number IS NULL THEN refused(op, 'in_use') ELSE numbered(op, number) END;
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
    WHEN 'r' THEN RETURN QUERY SELECT * FROM readable_not_own(op, at_ms, account);
    END CASE;
END $$;
COMMENT ON FUNCTION one(bigint, smallint, int, "char", int, text, bigint, text, bigint, text, bytea, bytea, bytea, bigint, bigint, bigint, bigint, int) IS
'Does one request by the rules: s SEND, p POP, k PEEK, n NACK, x EXTEND, c QCREATE, u QPURGE, v QREDRIVE, i QINFO, l QLIST, b QBROWSE, t ACCOUNTS, r QREADABLE with NOTOWN. Plan: queue_pkey, account_name_key; as the functions of each; ACCOUNTS reads all of account_pkey.';

CREATE FUNCTION took() RETURNS answer LANGUAGE sql AS $$
    SELECT ROW(null, 'z', (extract(epoch FROM greatest(clock_timestamp() - statement_timestamp(), '0')) * 1000000000)::bigint,
        null, null, null, null, null, null, null, null, null, null, null, null, null, null)::answer
$$;
COMMENT ON FUNCTION took() IS 'How long the current statement has taken so far, in nanoseconds; 0 if the clock was set back meanwhile.';

CREATE FUNCTION apply(
    given_ms bigint,
    -- The ring holds nothing below this place, in any queue; 0: not known.
    ring_floor bigint,
    -- For QREADABLEs: the place up to which a census looked, and the lanes that held something, with their first places.
    census_place bigint, census_recipients int[], census_queues bigint[], census_places bigint[],
    -- Queues to lock and queues to find, as positions in names, each sorted by name; names of queues to create; accounts
    -- that SENDs name, with their queues.
    names text[], to_lock int[], to_find int[], made text[], met_at int[], met text[],
    -- For each step the range of its requests; for a step that reads also the ranges of its lanes and of the SENDs to
    -- them, and whether to return the floors of these lanes. Kinds of steps (kinds.rs has the same):
    -- c: QCREATE without options; s: SEND; w: store the messages of SENDs that have not been popped yet;
    -- p: POP by queue, b: by queue and sender, f: by sender, P, B, F: the same with a lease;
    -- k: PEEK by queue, j: by queue and sender, h: by sender;
    -- q: a POP of one message that is alone in its step, g: such a PEEK;
    -- a: ACK; r: QREADABLE; d: QDELETE; o: everything else, by kinds of its own in o_kind.
    step_kinds "char"[], step_first int[], step_last int[], step_lane_first int[], step_lane_last int[],
    step_fresh_first int[], step_fresh_last int[], step_tell boolean[],
    -- the requests of steps s, which w stores
    s_op int[], s_queue int[], s_sender int[], s_recipient int[], s_delay bigint[], s_ttl bigint[], s_priority int[],
    s_headers bytea[], s_body bytea[],
    -- the POPs and PEEKs
    r_op int[], r_queue int[], r_reader int[], r_sender int[], r_want bigint[], r_lease bigint[], r_any int[], r_own int[],
    -- for POPs that have waited, the queue that they waited for
    r_awaited bigint[],
    -- the lanes that these requests read
    l_queue int[], l_sender int[], l_recipient int[], l_floor bigint[], l_want bigint[],
    -- for lanes of POPs the SENDs of this batch to them: the lane, and the range in x_send
    y_lane int[], y_first int[], y_last int[], x_send int[],
    -- the requests of steps a and r
    a_op int[], a_account int[], a_message bigint[], a_receipt bigint[],
    -- the requests of steps c, d and o; o_kind is explained at one
    o_op int[], o_kind "char"[], o_account int[], o_queue int[], o_other int[], o_account_name text[], o_key bytea[],
    o_headers bytea[], o_body bytea[], o_a bigint[], o_b bigint[], o_c bigint[], o_d bigint[], o_flags int[])
RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    at_ms bigint;
    later_ms bigint;
    ids bigint[] := array_fill(null::bigint, ARRAY[cardinality(names)]);
    found_id bigint;
    found_guarded boolean;
    guarded boolean := false;
    part smallint;
    high bigint;
    kind "char";
    -- The requests and lanes of a step: from and to.
    f int;
    t int;
    lf int;
    lt int;
    -- Positions of a queue in names, a request in r_op, and a message in s_id.
    queue_at int;
    read_at int;
    send_at int;
    -- For each SEND the message's id, and its queue as long as the message is still to be stored.
    s_id bigint[] := array_fill(null::bigint, ARRAY[cardinality(s_op)]);
    s_home bigint[] := s_id;
    none constant bigint[] := s_id;
    to_store int := 0;
    chosen candidates;
    assigned assignment;
    -- Places of messages that were lost to other transactions when a step was assigned first.
    lost bigint[];
    -- For POPs that name no queue: the number of moves begun, and whether one went on, before they looked.
    moves bigint;
    may_be_back boolean;
    place bigint;
    removed bigint;
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse_isolation();
    END IF;
    -- New names are locked first, sorted, before any queue: so another transaction that creates the same name, and waits
    -- for this one, holds no queue that this one needs.
    IF met <> '{}' THEN
        -- A scalar subquery and not EXISTS, which the planner may answer from a hash of all queues.
        PERFORM meet_soon(account_name, met) FROM (
            SELECT DISTINCT u.account_name FROM unnest(met_at, met) AS u(queue, account_name)
            WHERE u.queue = 0 OR names[u.queue] = ANY(made) OR (SELECT NOT only_known FROM queue WHERE name = names[u.queue])
            ORDER BY u.account_name) AS sorted;
    END IF;
    IF made <> '{}' THEN
        PERFORM lock_name(name, made) FROM (SELECT DISTINCT u.name FROM unnest(made) AS u(name) ORDER BY u.name) AS sorted;
    END IF;
    -- settled_id takes this lock exclusively, so it waits for this batch.
    IF to_lock <> '{}' AND pg_advisory_xact_lock_shared(hashtext('posthaste.append'), 0) IS NULL THEN
        RETURN;
    END IF;
    -- A queue that is deleted while its lock is waited for is not found.
    FOREACH queue_at IN ARRAY to_lock LOOP
        SELECT q.id, q.guarded INTO found_id, found_guarded FROM queue q WHERE q.name = names[queue_at] FOR NO KEY UPDATE SKIP LOCKED;
        IF found_id IS NULL AND queue_named(names[queue_at]) IS NOT NULL THEN
            PERFORM wait_for_queue(names[queue_at], ARRAY(SELECT names[wanted] FROM unnest(to_lock) AS t(wanted)));
            SELECT q.id, q.guarded INTO found_id, found_guarded FROM queue q WHERE q.name = names[queue_at] FOR NO KEY UPDATE;
        END IF;
        ids[queue_at] := found_id;
        guarded := guarded OR coalesce(found_guarded, false);
    END LOOP;
    FOREACH queue_at IN ARRAY to_find LOOP
        ids[queue_at] := queue_named(names[queue_at]);
    END LOOP;
    -- Read only now, after the waits for queues: a lease counts from when it is given.
    at_ms := coalesce(given_ms, now_ms());
    -- Leases are locked in the order of ids if several steps or requests name some: two batches may name the same ones.
    IF ARRAY['n', 'x']::"char"[] && o_kind OR cardinality(array_positions(step_kinds, 'a')) > 1 THEN
        PERFORM lock_leases(at_ms, o_kind, o_a, a_message);
        at_ms := coalesce(given_ms, now_ms());
    END IF;
    part := current_part();
    high := newest_id();
    -- 0: the middleware knows no floor yet.
    IF ring_floor = 0 THEN
        ring_floor := noted_floor();
        l_floor := ARRAY(SELECT greatest(u.place, ring_floor) FROM unnest(l_floor) WITH ORDINALITY AS u(place, lane) ORDER BY u.lane);
    END IF;

    FOR s IN 1..cardinality(step_kinds) LOOP
        kind := step_kinds[s];
        f := step_first[s];
        t := step_last[s];
        lf := step_lane_first[s];
        lt := step_lane_last[s];
        -- A queue that was found full may have room again.
        IF guarded AND kind IN ('p', 'b', 'f', 'P', 'B', 'F', 'q', 'a', 'd') THEN
            PERFORM set_config('posthaste.full', '', true);
        END IF;
        CASE kind
        WHEN 's' THEN
            IF guarded THEN
                RETURN QUERY SELECT * FROM send_step_guarded(at_ms, part, ids, s_op[f:t], s_queue[f:t],
                    s_sender[f:t], s_recipient[f:t], s_delay[f:t], s_ttl[f:t], s_priority[f:t], s_headers[f:t], s_body[f:t]);
            ELSE
                FOR i IN f..t LOOP
                    s_home[i] := ids[s_queue[i]];
                    IF s_home[i] IS NOT NULL THEN
                        s_id[i] := nextval('posthaste.message_id');
                        to_store := to_store + 1;
                    END IF;
                END LOOP;
                RETURN NEXT ROW(f, 's', null, null, null, null, null, null, null, null, null, null, null, null, null, null,
                    s_id[f:t] || s_home[f:t])::answer;
            END IF;
        WHEN 'w' THEN
            IF to_store > 0 THEN
                PERFORM store_step(f, t, at_ms, part, s_id, s_home, s_sender, s_recipient, s_delay, s_ttl, s_priority,
                    s_headers, s_body);
                s_home := none;
                to_store := 0;
            END IF;
        WHEN 'p', 'b', 'f', 'P', 'B', 'F' THEN
            -- A POP that waited for an earlier queue of this name gets nothing from this one.
            FOR i IN f..least(t, cardinality(r_awaited)) LOOP
                IF r_awaited[i] <> ids[r_queue[i]] THEN
                    r_want[i] := 0;
                END IF;
            END LOOP;
            lost := null;
            IF kind IN ('f', 'F') THEN
                moves := moves_begun();
                may_be_back := is_moving();
            END IF;
            LOOP
                IF lost IS NULL THEN
                    chosen := choose(lower(kind::text)::"char", at_ms, ids, lf, lt, l_queue, l_sender, l_recipient, l_floor, l_want);
                    IF step_tell[s] THEN
                        RETURN QUERY SELECT * FROM lane_floors(chosen, high, lf, lt, ids, l_queue, l_floor);
                    END IF;
                ELSE
                    chosen := choose_others(lower(kind::text)::"char", at_ms, ids, lf, lt, l_queue, l_sender, l_recipient, l_floor,
                        l_want, lost);
                END IF;
                IF to_store > 0 THEN
                    chosen := choose_fresh(chosen, step_fresh_first[s], step_fresh_last[s], y_lane, y_first, y_last, x_send, l_want,
                        s_id, s_home);
                END IF;
                assigned := assign(chosen, lf, lt - lf + 1, f, t, r_want, r_any, r_own);
                IF cardinality(assigned.places) > t - f + 1 - coalesce(cardinality(assigned.empty), 0)
                    AND exceeds_answer(assigned, s_id, s_headers, s_body)
                THEN
                    assigned := null;
                    assigned.again := ARRAY(SELECT generate_series(f, t));
                ELSIF cardinality(assigned.places) > coalesce(cardinality(assigned.fresh), 0) THEN
                    assigned := lock_assigned(assigned, chosen);
                END IF;
                EXIT WHEN assigned.lost IS NULL;
                -- Assign once more without what was lost. If messages are lost again, those POPs are done by the rules.
                IF lost IS NOT NULL THEN
                    assigned := give_up(assigned, chosen, r_any);
                    EXIT;
                END IF;
                lost := assigned.lost;
            END LOOP;
            -- Lost messages may only be moving and so be available again soon; the rules wait for that.
            IF lost IS NOT NULL AND assigned.empty IS NOT NULL AND kind IN ('f', 'F') AND (may_be_back OR moves_begun() <> moves)
                AND may_await_moves()
            THEN
                assigned.again := ARRAY(SELECT u.taker FROM unnest(assigned.again || assigned.empty) AS u(taker) ORDER BY u.taker);
                assigned.empty := null;
            END IF;
            IF assigned.empty IS NOT NULL THEN
                FOREACH read_at IN ARRAY assigned.empty LOOP
                    IF r_queue[read_at] <> 0 AND (ids[r_queue[read_at]] IS NULL OR r_awaited[read_at] <> ids[r_queue[read_at]]) THEN
                        RETURN NEXT refused(r_op[read_at], 'no_queue');
                    ELSE
                        RETURN NEXT nothing(r_op[read_at], ids[r_queue[read_at]], r_sender[read_at]);
                    END IF;
                END LOOP;
            END IF;
            IF assigned.places <> '{}' THEN
                RETURN NEXT ROW(null, 'd', null, null, null, null, null, null, null, null, null, null, null, null, null, null,
                    assigned.places || assigned.takers::bigint[])::answer;
                IF assigned.fresh IS NOT NULL THEN
                    FOREACH place IN ARRAY assigned.fresh LOOP
                        send_at := array_position(s_id, id_at(place));
                        RETURN NEXT ROW(null, 'm', s_id[send_at], s_home[send_at], s_sender[send_at], s_recipient[send_at], at_ms, 1,
                            place, null, null, CASE WHEN lower(kind::text) = 'f' THEN names[s_queue[send_at]] END, null, null,
                            s_headers[send_at], s_body[send_at], null)::answer;
                        s_home[send_at] := null;
                        to_store := to_store - 1;
                    END LOOP;
                END IF;
                IF cardinality(assigned.places) > coalesce(cardinality(assigned.fresh), 0) THEN
                    IF kind IN ('P', 'B', 'F') THEN
                        RETURN QUERY SELECT * FROM lease_step(at_ms, assigned, r_reader, r_lease);
                    ELSE
                        RETURN QUERY SELECT * FROM take_step(assigned);
                    END IF;
                    IF chosen.homes IS NOT NULL THEN
                        RETURN QUERY SELECT * FROM queue_names(chosen.homes);
                    END IF;
                END IF;
            END IF;
            -- One request at a time, after storing what this batch has sent: if an answer has no room for all that is
            -- wanted, or if messages were lost twice.
            IF assigned.again IS NOT NULL THEN
                IF to_store > 0 THEN
                    PERFORM store_step(1, cardinality(s_op), at_ms, part, s_id, s_home, s_sender, s_recipient, s_delay, s_ttl,
                        s_priority, s_headers, s_body);
                    s_home := none;
                    to_store := 0;
                END IF;
                RETURN QUERY SELECT * FROM pop_by_rules(at_ms, assigned.again, r_want, ids, r_op, r_queue, r_reader, r_sender, r_lease);
            END IF;
        WHEN 'q', 'g' THEN
            IF r_queue[f] <> 0 AND (ids[r_queue[f]] IS NULL OR r_awaited[f] <> ids[r_queue[f]]) THEN
                RETURN NEXT refused(r_op[f], 'no_queue');
            ELSIF kind = 'q' THEN
                RETURN NEXT take_first(r_op[f], at_ms, r_reader[f], ids[r_queue[f]], r_sender[f], r_lease[f],
                    l_floor[lf - 1 + r_any[f]], l_floor[lf - 1 + r_own[f]]);
            ELSE
                RETURN NEXT show_first(r_op[f], at_ms, r_reader[f], ids[r_queue[f]], r_sender[f],
                    l_floor[lf - 1 + r_any[f]], l_floor[lf - 1 + r_own[f]]);
            END IF;
        WHEN 'k', 'j', 'h' THEN
            IF kind <> 'h' AND array_position(ids, null) IS NOT NULL THEN
                FOR i IN f..t LOOP
                    IF ids[r_queue[i]] IS NULL THEN
                        RETURN NEXT refused(r_op[i], 'no_queue');
                    END IF;
                END LOOP;
            END IF;
            CASE kind
            WHEN 'k' THEN
                RETURN QUERY SELECT * FROM peek_by_queue(at_ms, ids, f, t, r_op, r_queue, r_reader, lf, l_floor, r_any,
                    r_own);
            WHEN 'j' THEN
                RETURN QUERY SELECT * FROM peek_by_both(at_ms, ids, f, t, r_op, r_queue, r_reader, r_sender, lf, l_floor,
                    r_any, r_own);
            WHEN 'h' THEN
                RETURN QUERY SELECT * FROM peek_by_sender(at_ms, f, t, r_op, r_reader, r_sender, lf, l_floor, r_any, r_own);
            END CASE;
        WHEN 'a' THEN
            RETURN QUERY SELECT * FROM ack_step(at_ms, a_op[f:t], a_account[f:t], a_message[f:t], a_receipt[f:t]);
        WHEN 'r' THEN
            RETURN QUERY SELECT * FROM readable_step(at_ms, a_op[f:t], a_account[f:t], ring_floor, census_place,
                census_recipients, census_queues, census_places);
        WHEN 'c' THEN
            FOR i IN f..t LOOP
                RETURN NEXT numbered(o_op[i], add_queue(names[o_queue[i]]));
            END LOOP;
            IF names <> '{}' THEN
                ids := with_made(ids, names, o_queue[f:t]);
            END IF;
        WHEN 'd' THEN
            FOR i IN f..t LOOP
                found_id := ids[o_queue[i]];
                removed := CASE WHEN found_id IS NOT NULL THEN remove_queue(found_id, 'refuse') END;
                IF removed IS NULL THEN
                    RETURN NEXT refused(o_op[i], CASE WHEN found_id IS NULL THEN 'no_queue' ELSE 'in_use' END);
                ELSE
                    RETURN NEXT numbered(o_op[i], removed);
                    RETURN NEXT gone(found_id);
                    -- Later requests of the batch do not find the queue any more.
                    ids[o_queue[i]] := null;
                END IF;
            END LOOP;
        WHEN 'o' THEN
            FOR i IN f..t LOOP
                IF guarded AND o_kind[i] IN ('p', 'n', 'u', 'v', 'c') THEN
                    PERFORM set_config('posthaste.full', '', true);
                END IF;
                RETURN QUERY SELECT * FROM one(at_ms, part, o_op[i], o_kind[i], o_account[i], names[o_queue[i]], ids[o_queue[i]],
                    names[o_other[i]], ids[o_other[i]], o_account_name[i], o_key[i], o_headers[i], o_body[i], o_a[i], o_b[i], o_c[i],
                    o_d[i], o_flags[i]);
                IF o_kind[i] = 'c' THEN
                    ids := with_made(ids, names, ARRAY[o_queue[i], o_other[i]]);
                    guarded := guarded OR EXISTS (SELECT FROM queue q WHERE q.id = ANY(ids) AND q.guarded);
                END IF;
            END LOOP;
        END CASE;
        -- If a step waited or counted for long, its leases are renewed, so that none is shortened by that.
        IF given_ms IS NULL AND (guarded OR kind IN ('a', 'd', 'o') OR kind IN ('f', 'F') AND assigned.again IS NOT NULL
            OR kind = 'q' AND r_queue[f] = 0)
        THEN
            later_ms := now_ms();
            IF later_ms > at_ms + 20 THEN
                PERFORM renew_leases(at_ms, later_ms, r_lease, o_kind, o_b, o_c);
                at_ms := later_ms;
            END IF;
        END IF;
    END LOOP;
    RETURN NEXT took();
END $$;
COMMENT ON FUNCTION apply IS
'A batch: creates names and locks queues, each in order, does the steps one after the other, and returns how long that took. A refusal is a row, and does not affect other requests. Plan: queue_name_key for each queue that is named; as the functions of the steps.';
