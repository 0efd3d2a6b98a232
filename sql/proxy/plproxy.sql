-- One face for several databases: the functions of SQL clients, each passed on by PL/Proxy to the database where its
-- queue lives. For a database of its own, which holds nothing but this:
--
--     CREATE EXTENSION plproxy;
--     CREATE SERVER posthaste FOREIGN DATA WRAPPER plproxy OPTIONS (
--         p0 'host=db-a dbname=posthaste', p1 'host=db-b dbname=posthaste');
--     CREATE USER MAPPING FOR CURRENT_USER SERVER posthaste OPTIONS (user 'proxy', password '…');
--     \i plproxy.sql
--     GRANT USAGE ON SCHEMA posthaste TO app;
--
-- docs/guides/scale-out.md goes through it step by step, docs/decisions/0006-beyond-one-machine.md says why it is so.
--
-- What is different from one database:
--   * A call commits by itself, on its own database, whatever becomes of the transaction that made it. A message
--     that must share the fate of an application's other rows is sent in the database where those rows are.
--   * Ids of messages, queues and accounts are a database's own. The order of messages holds within a queue.
--   * What names a queue needs the queue's database and no other. What names none (readable, a sender alone, login)
--     needs all of them, and fails when one is down.
--
-- Every function has a search_path of its own: they act for their owner, who may reach the databases, and what a caller's
-- schema has under the name of a function or an operator must not be run for the owner.

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
COMMENT ON TYPE received IS 'A message as peek and pop give it; the same as in the databases.';

-- Places -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION home(queue text) RETURNS int LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.hashtext(coalesce(substring(queue FROM '^[^{]*[{]([^}]+)[}]'), queue, ''))
$$;
COMMENT ON FUNCTION home(text) IS
'Where a queue lives: its name''s hash, of which PL/Proxy takes as many low bits as tell its databases apart. What stands between the first braces counts alone, so {orders}.dead lives beside {orders}. Null, which names no queue, has a home too: its database says what is wrong with it.';

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
'The id of a queue in its database, made when the name is new. Null is refused like the empty name: an unnamed queue is named by its id, and each database counts its own.';

CREATE FUNCTION delete_queue(queue text) RETURNS bigint LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
$$;
COMMENT ON FUNCTION delete_queue(text) IS 'Removes a queue; how many messages went with it.';

CREATE FUNCTION send(sender text, queue text, body bytea, recipient text DEFAULT null) RETURNS bigint
LANGUAGE plproxy SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
$$;
COMMENT ON FUNCTION send(text, text, bytea, text) IS
'Sends a message; its id, which is unique in its database. Stored when the call returns, whether or not the caller''s transaction commits. Recipient *: a copy for everybody who has ever logged in to the queue''s database.';

CREATE FUNCTION send(sender text, queue text, body text, recipient text DEFAULT null) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
    SELECT send(sender, queue, convert_to(body, 'UTF8'), recipient)
$$;
COMMENT ON FUNCTION send(text, text, text, text) IS 'The same with a body of text, stored as UTF-8.';

CREATE FUNCTION peek_queue(reader text, queue text, sender text) RETURNS SETOF received
LANGUAGE plproxy SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
    TARGET posthaste.peek;
$$;
COMMENT ON FUNCTION peek_queue(text, text, text) IS 'peek, of a queue.';

CREATE FUNCTION pop_queue(reader text, queue text, sender text) RETURNS SETOF received
LANGUAGE plproxy SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON posthaste.home(queue);
    TARGET posthaste.pop;
$$;
COMMENT ON FUNCTION pop_queue(text, text, text) IS 'pop, of a queue.';

-- No queue, all databases ------------------------------------------------------------------------------------------

CREATE FUNCTION login_everywhere(account text, secret text) RETURNS SETOF int LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON ALL;
    TARGET posthaste.login;
$$;
COMMENT ON FUNCTION login_everywhere(text, text) IS 'login, in each database.';

CREATE FUNCTION login(account text, secret text DEFAULT null) RETURNS void LANGUAGE sql SECURITY DEFINER
SET search_path = posthaste, pg_temp AS $$
    SELECT FROM login_everywhere(account, secret)
$$;
COMMENT ON FUNCTION login(text, text) IS
'Makes an account known to all databases (STRICT, recipient *). Without a number, for each database has its own. Say it again if it failed half-way.';

CREATE FUNCTION readable_everywhere(reader text) RETURNS SETOF text LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON ALL;
    TARGET posthaste.readable;
$$;
COMMENT ON FUNCTION readable_everywhere(text) IS 'readable, of all databases at once.';

CREATE FUNCTION readable(reader text) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER
SET search_path = posthaste, pg_temp AS $$
    SELECT DISTINCT name FROM readable_everywhere(reader) AS name ORDER BY name
$$;
COMMENT ON FUNCTION readable(text) IS
'Names of the queues that hold something for the reader, in the order of their names. Asks all databases at once.';

CREATE FUNCTION peek_at(at int, reader text, sender text) RETURNS SETOF received LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON at;
    SELECT * FROM posthaste.peek(reader, null, sender);
$$;
COMMENT ON FUNCTION peek_at(int, text, text) IS 'peek by sender alone, in one database.';

CREATE FUNCTION pop_at(at int, reader text, sender text) RETURNS SETOF received LANGUAGE plproxy SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    CLUSTER 'posthaste';
    RUN ON at;
    SELECT * FROM posthaste.pop(reader, null, sender);
$$;
COMMENT ON FUNCTION pop_at(int, text, text) IS 'pop by sender alone, in one database.';

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
'The message that pop would give, which stays. By sender alone each database is asked, and of their first messages the earliest is shown.';

CREATE FUNCTION pop(reader text, queue text DEFAULT null, sender text DEFAULT null) RETURNS SETOF received
LANGUAGE plpgsql SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
DECLARE d int;
BEGIN
    IF queue IS NOT NULL OR sender IS NULL THEN
        RETURN QUERY SELECT * FROM pop_queue(reader, queue, sender);
        RETURN;
    END IF;
    -- Taken from one database only, so looked at in all of them first. Each that has something is tried: what was
    -- seen may be somebody else's by now, and nothing is answered only when no database had anything to give.
    FOR d IN SELECT s.d FROM databases() AS s(d), peek_at(s.d, reader, sender) AS there ORDER BY there.sent_at LOOP
        RETURN QUERY SELECT * FROM pop_at(d, reader, sender);
        EXIT WHEN FOUND;
    END LOOP;
END $$;
COMMENT ON FUNCTION pop(text, text, text) IS
'Takes the oldest message that is for anyone or for the reader, of a queue or from a sender or both. It is gone when the call returns, even if the caller''s transaction does not commit. By sender alone: the earliest of the first messages of all databases.';

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA posthaste FROM PUBLIC;
GRANT EXECUTE ON FUNCTION login(text, text), create_queue(text), delete_queue(text), send(text, text, bytea, text),
    send(text, text, text, text), peek(text, text, text), pop(text, text, text), readable(text) TO PUBLIC;

COMMIT;
