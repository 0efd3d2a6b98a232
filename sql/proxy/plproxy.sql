-- A common front for several databases: the functions for SQL clients, which PL/Proxy forwards to the database that has
-- the queue. To be installed in a database of its own, which holds nothing else:
--
--     CREATE EXTENSION plproxy;
--     CREATE SERVER posthaste FOREIGN DATA WRAPPER plproxy OPTIONS (
--         p0 'host=db-a dbname=posthaste', p1 'host=db-b dbname=posthaste');
--     CREATE USER MAPPING FOR CURRENT_USER SERVER posthaste OPTIONS (user 'proxy', password '…');
--     \i plproxy.sql
--     GRANT USAGE ON SCHEMA posthaste TO app;
--
-- docs/guides/scale-out.md describes this step by step, docs/decisions/0006-beyond-one-machine.md gives the reasons.
--
-- Differences from one database:
--   * A call commits at once in the queue's database, even if the caller's transaction is rolled back. A message that must
--     be committed together with other rows of an application is sent in the database that has these rows.
--   * Each database has its own ids of messages, queues and accounts. The order of messages holds within a queue.
--   * A call that names a queue needs only the queue's database. One that names none (readable, a sender alone, login)
--     needs all of them, and fails when one is down.
--
-- Every function has a search_path of its own: it runs with the rights of its owner, who may connect to the databases, so
-- it must not run a function or operator of the same name from a caller's schema.

BEGIN;

CREATE SCHEMA posthaste;
SET LOCAL search_path = posthaste, public;

CREATE TYPE received AS (
    id bigint,
    queue text,
    sender text,
    recipient text,
    sent_at timestamptz,
    deliveries int,
    headers bytea[],
    first_queue text,
    reason text,
    body bytea
);
COMMENT ON TYPE received IS 'A message as peek and pop return it; the same type as in the databases.';

-- Places -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION home(queue text) RETURNS int LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.hashtext(coalesce(substring(queue FROM '^[^{]*[{]([^}]+)[}]'), queue, ''))
$$;
COMMENT ON FUNCTION home(text) IS
'The hash of a queue''s name, from whose low bits PL/Proxy chooses the database. If the name has braces, only the text between the first ones is hashed, so {orders}.dead is in the same database as {orders}. Null has a hash too, so that a database reports the error.';

CREATE FUNCTION databases() RETURNS SETOF int LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT generate_series(0, count(*)::int - 1)
    FROM pg_foreign_server, unnest(srvoptions) AS option
    WHERE srvname = 'posthaste' AND option ~ '^p?[0-9]+='
$$;
COMMENT ON FUNCTION databases() IS 'The numbers of the databases, as the server posthaste lists them.';

-- One queue, one database ------------------------------------------------------------------------------------------

CREATE FUNCTION create_queue(name text) RETURNS bigint LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(name);
    SELECT posthaste.create_queue(coalesce(name, ''));
$$;
COMMENT ON FUNCTION create_queue(text) IS
'The id of a queue in its database, which is created if the name is new. Null is refused like the empty name: an unnamed queue would be named by its id, which is unique in one database only.';

CREATE FUNCTION delete_queue(queue text) RETURNS bigint LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
$$;
COMMENT ON FUNCTION delete_queue(text) IS 'Removes a queue with its messages, and returns how many these were.';

CREATE FUNCTION send(sender text, queue text, body bytea, recipient text DEFAULT null) RETURNS bigint
LANGUAGE plproxy SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
$$;
COMMENT ON FUNCTION send(text, text, bytea, text) IS
'Sends a message and returns its id, which is unique in its database. The message is stored when the call returns, whether or not the caller''s transaction commits. Recipient *: a copy for every other account that has ever logged in to the queue''s database.';

CREATE FUNCTION send(sender text, queue text, body text, recipient text DEFAULT null) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
    SELECT send(sender, queue, convert_to(body, 'UTF8'), recipient)
$$;
COMMENT ON FUNCTION send(text, text, text, text) IS 'Sends a message, as send with a bytea body does, whose body is text, stored as UTF-8.';

CREATE FUNCTION peek_queue(reader text, queue text, sender text) RETURNS SETOF received
LANGUAGE plproxy SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
    TARGET posthaste.peek;
$$;
COMMENT ON FUNCTION peek_queue(text, text, text) IS 'peek for a call that names a queue: forwarded to the queue''s database.';

CREATE FUNCTION pop_queue(reader text, queue text, sender text) RETURNS SETOF received
LANGUAGE plproxy SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
    TARGET posthaste.pop;
$$;
COMMENT ON FUNCTION pop_queue(text, text, text) IS 'pop for a call that names a queue: forwarded to the queue''s database.';

-- No queue, all databases ------------------------------------------------------------------------------------------

CREATE FUNCTION login_everywhere(account text, secret text) RETURNS SETOF int LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON ALL;
    TARGET posthaste.login;
$$;
COMMENT ON FUNCTION login_everywhere(text, text) IS 'login in every database; a row from each.';

CREATE FUNCTION login(account text, secret text DEFAULT null) RETURNS void LANGUAGE sql SECURITY DEFINER
SET search_path = posthaste, pg_temp AS $$
    SELECT FROM login_everywhere(account, secret)
$$;
COMMENT ON FUNCTION login(text, text) IS
'Logs an account in to all databases (STRICT, recipient *). Returns no id, since each database has its own. If it fails it may have succeeded in some databases: repeat it.';

CREATE FUNCTION readable_everywhere(reader text, not_own boolean) RETURNS SETOF text LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON ALL;
    TARGET posthaste.readable;
$$;
COMMENT ON FUNCTION readable_everywhere(text, boolean) IS 'readable in every database, all at once.';

CREATE FUNCTION readable(reader text, not_own boolean DEFAULT false) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER
SET search_path = posthaste, pg_temp AS $$
    SELECT DISTINCT name FROM readable_everywhere(reader, not_own) AS name ORDER BY name
$$;
COMMENT ON FUNCTION readable(text, boolean) IS
'Names of the queues that hold something for the reader (with not_own something that another account sent), in the order of their names. Asks all databases at once.';

CREATE FUNCTION peek_at(at int, reader text, sender text) RETURNS SETOF received LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON at;
    SELECT * FROM posthaste.peek(reader, null, sender);
$$;
COMMENT ON FUNCTION peek_at(int, text, text) IS 'peek by sender alone in one database, given by its number.';

CREATE FUNCTION pop_at(at int, reader text, sender text) RETURNS SETOF received LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON at;
    SELECT * FROM posthaste.pop(reader, null, sender);
$$;
COMMENT ON FUNCTION pop_at(int, text, text) IS 'pop by sender alone in one database, given by its number.';

CREATE FUNCTION peek(reader text, queue text DEFAULT null, sender text DEFAULT null) RETURNS SETOF received
LANGUAGE plpgsql SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
BEGIN
    IF queue IS NOT NULL OR sender IS NULL THEN
        RETURN QUERY SELECT * FROM peek_queue(reader, queue, sender);
    ELSE
        RETURN QUERY SELECT there.* FROM databases() AS d, peek_at(d, reader, sender) AS there
            ORDER BY there.sent_at LIMIT 1;
    END IF;
END $$;
COMMENT ON FUNCTION peek(text, text, text) IS
'The message that pop would take, which stays in its queue. By sender alone, all databases are asked, and the earliest of their first messages is returned.';

CREATE FUNCTION pop(reader text, queue text DEFAULT null, sender text DEFAULT null) RETURNS SETOF received
LANGUAGE plpgsql SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
DECLARE d int;
BEGIN
    IF queue IS NOT NULL OR sender IS NULL THEN
        RETURN QUERY SELECT * FROM pop_queue(reader, queue, sender);
        RETURN;
    END IF;
    -- All databases are peeked at first, since a message is to be taken from one only. Then each that has one is tried, the
    -- earliest first, since another reader may have taken it: no row is returned only if none of them had a message left.
    FOR d IN SELECT s.d FROM databases() AS s(d), peek_at(s.d, reader, sender) AS there ORDER BY there.sent_at LOOP
        RETURN QUERY SELECT * FROM pop_at(d, reader, sender);
        EXIT WHEN FOUND;
    END LOOP;
END $$;
COMMENT ON FUNCTION pop(text, text, text) IS
'Takes the oldest message that is for anyone or for the reader, of a queue or from a sender or both. It is removed when the call returns, even if the caller''s transaction does not commit. By sender alone: the earliest of the first messages of all databases.';

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA posthaste FROM PUBLIC;
GRANT EXECUTE ON FUNCTION login(text, text), create_queue(text), delete_queue(text), send(text, text, bytea, text),
    send(text, text, text, text), peek(text, text, text), pop(text, text, text), readable(text, boolean) TO PUBLIC;

COMMIT;
