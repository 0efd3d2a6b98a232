-- Fixed answers in place of the queue tier's functions: posthaste migrate --mock BYTES.
--
-- With them a benchmark measures only the path from the middleware to the database and back. Every function that the
-- middleware calls answers in the shape and size of a real answer, and uses no table. BODY_BYTES is replaced by a number.

SET LOCAL search_path = posthaste;

CREATE OR REPLACE FUNCTION mock_number(op int) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'i', 1, 1, null, null, null, null, null, null, null, '1', null, null, null, null, null)::posthaste.answer
$$;
COMMENT ON FUNCTION mock_number(int) IS 'The number 1, and a queue named 1.';

CREATE OR REPLACE FUNCTION mock_readable(op int) RETURNS SETOF answer LANGUAGE sql IMMUTABLE AS $$
    VALUES (op, 'r'::"char", 1::bigint, null::bigint, null::int, null::int, null::bigint, null::int, null::bigint, null::bigint,
        null::bigint, null::text, null::text, null::text, null::bytea, null::bytea, ARRAY[1]::bigint[]),
        (null, 'n', null, 1, null, null, null, null, null, null, null, '1', null, null, null, null, null)
$$;
COMMENT ON FUNCTION mock_readable(int) IS 'The answer to QREADABLE with one queue, named 1; also the answer to an ACK.';

CREATE OR REPLACE FUNCTION mock_body() RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT convert_to(repeat('x', BODY_BYTES), 'UTF8')
$$;
COMMENT ON FUNCTION mock_body() IS 'The body of every message.';

CREATE OR REPLACE FUNCTION mock_message(op int) RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(op, 'm', 1, 1, 1, 0, 0, 1, 255::bigint << 54 | 1, null, null, '1', null, null, null,
        posthaste.mock_body(), null)::posthaste.answer
$$;
COMMENT ON FUNCTION mock_message(int) IS 'Message 1 of queue 1, from account 1 to anyone.';

CREATE OR REPLACE FUNCTION mock_other(op int, kind "char") RETURNS answer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN kind IN ('p', 'k', 'b') THEN posthaste.mock_message(op)
        WHEN kind IN ('i', 'l') THEN ROW(op, 'q', 1, null, null, null, null, null, null, null, null, '1', null, null, null, null,
            ARRAY[0, 0, 0, 0, 0, null, null, null, null, 0, 0]::bigint[])::posthaste.answer
        WHEN kind = 't' THEN ROW(op, 'a', 1, null, null, null, null, null, null, null, null, '1', null, null, null, null,
            null)::posthaste.answer
        ELSE posthaste.mock_number(op) END
$$;
COMMENT ON FUNCTION mock_other(int, "char") IS 'The answer to a request of the o_ columns of apply, by its letter.';

CREATE OR REPLACE FUNCTION apply(
    given_ms bigint,
    -- The ring holds nothing below this place, in any queue; 0: not known.
    ring_floor bigint,
    -- For QREADABLEs: the place up to which a census looked, and the lanes that held something, with their first places.
    census_place bigint, census_recipients int[], census_queues bigint[], census_places bigint[],
    -- Queues to lock and queues to find, as positions in names, each sorted by name; names of queues to create; accounts
    -- that SENDs name, with their queues.
    names text[], to_lock int[], to_find int[], made text[], met_at int[], met text[],
    -- For each step the range of its requests; for a step that reads also the ranges of its lanes and of the SENDs to
    -- them, and whether to return the floors of these lanes.
    step_kinds "char"[], step_first int[], step_last int[], step_lane_first int[], step_lane_last int[],
    step_fresh_first int[], step_fresh_last int[], step_tell boolean[],
    -- s: SEND; w: store the messages of these SENDs that have not been popped yet
    s_op int[], s_queue int[], s_sender int[], s_recipient int[], s_delay bigint[], s_ttl bigint[], s_priority int[],
    s_headers bytea[], s_body bytea[],
    -- p: POP by queue, b: by queue and sender, f: by sender, the same in capitals with a lease;
    -- k: PEEK by queue, j: by queue and sender, h: by sender; q: a POP of one message that is alone in its step, g: such a PEEK
    r_op int[], r_queue int[], r_reader int[], r_sender int[], r_want bigint[], r_lease bigint[], r_any int[], r_own int[],
    -- for POPs that have waited, the queue that they waited for
    r_awaited bigint[],
    -- the lanes that these requests read
    l_queue int[], l_sender int[], l_recipient int[], l_floor bigint[], l_want bigint[],
    -- for lanes of POPs the SENDs of this batch to them: the lane, and the range in x_send
    y_lane int[], y_first int[], y_last int[], x_send int[],
    -- a: ACK; r: QREADABLE
    a_op int[], a_account int[], a_message bigint[], a_receipt bigint[],
    -- c: QCREATE; d: QDELETE; o: everything else
    o_op int[], o_kind "char"[], o_account int[], o_queue int[], o_other int[], o_account_name text[], o_key bytea[],
    o_headers bytea[], o_body bytea[], o_a bigint[], o_b bigint[], o_c bigint[], o_d bigint[], o_flags int[])
RETURNS SETOF answer LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT n.* FROM unnest(s_op) AS u(op), posthaste.mock_number(u.op) AS n;
    RETURN QUERY SELECT a.* FROM unnest(a_op) AS u(op), posthaste.mock_readable(u.op) AS a;
    RETURN QUERY SELECT m.* FROM unnest(r_op) AS u(op), posthaste.mock_message(u.op) AS m;
    RETURN QUERY SELECT o.* FROM unnest(o_op, o_kind) AS u(op, kind), posthaste.mock_other(u.op, u.kind) AS o;
END $$;
COMMENT ON FUNCTION apply IS 'Fixed: one answer for each request of a batch. Plan: no table.';

CREATE OR REPLACE FUNCTION send_alone(given_ms bigint, sender int, queue_name text, recipient int, content bytea) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_number(0) $$;
COMMENT ON FUNCTION send_alone IS 'Fixed: the number 1. Plan: no table.';

CREATE OR REPLACE FUNCTION pop_alone(given_ms bigint, reader int, queue_name text, awaited bigint, sender int, lease_ms bigint,
    any_floor bigint, own_floor bigint) RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(0) $$;
COMMENT ON FUNCTION pop_alone IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION peek_alone(given_ms bigint, reader int, queue_name text, sender int, any_floor bigint, own_floor bigint)
RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(0) $$;
COMMENT ON FUNCTION peek_alone IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION create_alone(queue_name text) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_number(0) $$;
COMMENT ON FUNCTION create_alone IS 'Fixed: the number 1. Plan: no table.';

CREATE OR REPLACE FUNCTION delete_alone(queue_name text) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_number(0) $$;
COMMENT ON FUNCTION delete_alone IS 'Fixed: the number 1. Plan: no table.';

CREATE OR REPLACE FUNCTION readable_alone(given_ms bigint, reader int, ring_floor bigint, census_place bigint, census_recipients int[],
    census_queues bigint[], census_places bigint[]) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_readable(0) $$;
COMMENT ON FUNCTION readable_alone IS 'Fixed: a queue named 1. Plan: no table.';

CREATE OR REPLACE FUNCTION send_unbatched(given_ms bigint, op int, sender int, queue_name text, recipient int, content bytea) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_number(op) $$;
COMMENT ON FUNCTION send_unbatched IS 'Fixed: the number 1. Plan: no table.';

CREATE OR REPLACE FUNCTION peek_unbatched(given_ms bigint, op int, reader int, queue_name text, sender int) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(op) $$;
COMMENT ON FUNCTION peek_unbatched IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION create_unbatched(op int) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_number(op) $$;
COMMENT ON FUNCTION create_unbatched IS 'Fixed: the number 1. Plan: no table.';

CREATE OR REPLACE FUNCTION delete_unbatched(op int, queue_name text) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_number(op) $$;
COMMENT ON FUNCTION delete_unbatched IS 'Fixed: the number 1. Plan: no table.';

CREATE OR REPLACE FUNCTION readable_unbatched(given_ms bigint, op int, reader int) RETURNS SETOF answer
LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_readable(op) $$;
COMMENT ON FUNCTION readable_unbatched IS 'Fixed: a queue named 1. Plan: no table.';

CREATE OR REPLACE FUNCTION pop_delete_retry(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(op) $$;
COMMENT ON FUNCTION pop_delete_retry IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION pop_for_update(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(op) $$;
COMMENT ON FUNCTION pop_for_update IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION pop_repeatable_read(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(op) $$;
COMMENT ON FUNCTION pop_repeatable_read IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION pop_mark_update(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(op) $$;
COMMENT ON FUNCTION pop_mark_update IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION pop_skip_locked(given_ms bigint, op int, reader int, queue_name text, awaited bigint, sender int, tries int)
RETURNS SETOF answer LANGUAGE sql AS $$ SELECT * FROM posthaste.mock_message(op) $$;
COMMENT ON FUNCTION pop_skip_locked IS 'Fixed: message 1. Plan: no table.';

CREATE OR REPLACE FUNCTION meet_as(account_name text, logs_in boolean, patience_ms int) RETURNS int LANGUAGE sql AS $$ SELECT nextval('posthaste.account_id')::int $$;
COMMENT ON FUNCTION meet_as IS 'The next number, for which the middleware asks once for each name. Plan: no table.';

CREATE OR REPLACE FUNCTION meet_all(names text[], logs_in boolean, patience_ms int) RETURNS int[] LANGUAGE sql AS $$
SELECT array_agg(nextval('posthaste.account_id')::int) FROM unnest(names) $$;
COMMENT ON FUNCTION meet_all IS 'The next numbers. Plan: no table.';

CREATE OR REPLACE FUNCTION upkeep(given_ms bigint, from_ms bigint, most int) RETURNS SETOF answer LANGUAGE plpgsql AS $$ BEGIN END $$;
COMMENT ON FUNCTION upkeep IS 'Fixed: nothing is ever due. Plan: no table.';

CREATE OR REPLACE FUNCTION watch_news(watcher bigint, keep_ms bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
COMMENT ON FUNCTION watch_news IS 'Fixed: no client waits. Plan: no table.';

CREATE OR REPLACE FUNCTION tell_news(teller bigint, news text) RETURNS boolean LANGUAGE sql AS $$ SELECT false $$;
COMMENT ON FUNCTION tell_news IS 'Fixed: no client waits. Plan: no table.';

CREATE OR REPLACE FUNCTION turn_ring(bytes_min bigint, patience_ms int, piece int, INOUT oldest bigint, INOUT head text,
    elsewhere text[] DEFAULT '{}', OUT said text)
LANGUAGE sql AS $$ SELECT null::bigint, null::text, null::text $$;
COMMENT ON FUNCTION turn_ring IS 'Fixed: the ring is empty. Plan: no table.';
