-- The functions for SQL clients, which run inside the client's own transaction.
--
-- Such a transaction may stay open for long, so nothing here may keep a middleware waiting. Four things differ from batches:
--   * A message sent by SQL is kept aside (part 2). Its id is drawn now and committed at some later time, which breaks the
--     order that the ring relies on. Its queue's row is locked FOR KEY SHARE only: other senders do not have to wait, and
--     QDELETE is refused until the transaction ends.
--   * The account of a new name is created when the transaction commits: a new entry in the index of names would block
--     every other transaction that uses the same name. Until then the newcomer has a number that no other transaction sees.
--   * Waiting clients are notified at the commit too: those that wait at that time.
--   * A client's mistake raises an error, as SQL clients expect: an SQLSTATE for each error code of RESP
--     (PHNOQ NOQUEUE, PHDEN DENIED, PHFUL FULL, PHBAD BADQUERY, PHNOA NOACCOUNT, PHBSY BUSY, PHTOO TOOBIG), and a hint.
-- An argument from a column with a collation of its own brings that along, so names are compared as COLLATE "C" everywhere.
-- At REPEATABLE READ and SERIALIZABLE a call may fail with 40001, like any statement that conflicts with another transaction.
--
-- Rights. The eight functions run with the rights of the role that installed the schema (SECURITY DEFINER, with a fixed
-- search_path), so that an application needs no right on any table and cannot break a rule of a queue:
--     GRANT USAGE ON SCHEMA posthaste TO app;
-- is enough, and without it a role can call nothing. Everything else in the schema is for its owner only; a middleware
-- that connects as another role must be a member of the owner. Access by SQL is a matter of database roles: a role that
-- may call these functions may name any account, and the secrets in a middleware's file of accounts are not checked.

SET LOCAL search_path = posthaste;

CREATE TYPE received AS (
    id bigint,
    queue text,
    sender text,
    -- Null: the message was for anyone.
    recipient text,
    sent_at timestamptz,
    -- How often the message was delivered, by this pop too.
    deliveries int,
    -- Pairs {{name,value},…}; null if there are none.
    headers bytea[],
    -- For a dead letter: the queue it was sent to, and why it became one.
    first_queue text,
    reason text,
    -- If it is text: convert_from(body, 'UTF8').
    body bytea
);
COMMENT ON TYPE received IS 'A message as peek and pop return it.';

-- Refusals ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION refuse(state text, said text, hint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = said, HINT = hint;
END $$;
COMMENT ON FUNCTION refuse(text, text, text) IS 'Raises an error with the given SQLSTATE, of the class PH.';

CREATE FUNCTION refuse_as(a answer, queue text, recipient text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE a.reason
    WHEN 'forbidden_self' THEN
        PERFORM refuse('PHDEN', format('queue ''%s'' has FORBIDSELF: an account may not send to itself there', queue),
            'Name another recipient, or none.');
    WHEN 'no_account' THEN
        PERFORM refuse('PHNOA', format('no account is called ''%s'', and queue ''%s'' is STRICT: its recipients must have logged in',
            recipient, queue), 'Log the recipient in first, for instance with posthaste.login.');
    WHEN 'full_messages' THEN
        PERFORM refuse('PHFUL', format('queue ''%s'' may hold %s messages (MAXMSGS)', queue, a.number),
            'Read some or raise the limit.');
    WHEN 'full_bytes' THEN
        PERFORM refuse('PHFUL', format('queue ''%s'' may hold %s body bytes (MAXBYTES)', queue, a.number),
            'Read some or raise the limit.');
    WHEN 'full_copies' THEN
        PERFORM refuse('PHFUL', format('%s copies of this message are more than 67108864 bytes', a.number), 'Send a shorter one.');
    WHEN 'in_use' THEN
        PERFORM refuse('PHBSY', format('a transaction that uses queue ''%s'' has not ended', queue), 'Try again.');
    END CASE;
END $$;
COMMENT ON FUNCTION refuse_as(answer, text, text) IS 'Raises a refusal of the rules as an error that corresponds to that of RESP.';

CREATE FUNCTION check_name(what text, given text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given IS NULL OR octet_length(given) NOT BETWEEN 1 AND 255 OR given COLLATE "C" IN ('*', '-')
        OR given COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN
        PERFORM refuse('PHBAD', format('%L cannot name the %s', given, what),
            'A name is 1 to 255 bytes without control characters, neither * nor -.');
    END IF;
END $$;
COMMENT ON FUNCTION check_name(text, text) IS 'Fails if the name is not valid: 1 to 255 bytes of UTF-8 without control characters, neither * nor -.';

CREATE FUNCTION check_isolation() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT is_read_committed() THEN
        PERFORM refuse('PHBAD', 'this transaction does not see what has been sent and moved since it began',
            'Call it in a transaction with the isolation level READ COMMITTED.');
    END IF;
END $$;
COMMENT ON FUNCTION check_isolation() IS
'Fails unless the transaction is READ COMMITTED. A read needs a new snapshot for each statement: with an older one a part of the ring that was truncated meanwhile looks empty, and messages that were moved aside before that are not visible either.';

-- Accounts ---------------------------------------------------------------------------------------------------------

-- Accounts that the current transaction was the first to name. It removes the rows at its commit, so each transaction
-- sees only its own. The index begins with the transaction, so that a lookup does not walk the dead rows of others, which
-- stay as long as an old snapshot is open.
CREATE TABLE newcomer (
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id int NOT NULL,
    name text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000);
ALTER TABLE newcomer REPLICA IDENTITY FULL;
CREATE INDEX newcomer_by_name ON newcomer (transaction, name);

CREATE FUNCTION number_of(account_name text) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE number int;
BEGIN
    SELECT id INTO number FROM account WHERE name = account_name COLLATE "C";
    IF number IS NULL THEN
        SELECT id INTO number FROM newcomer WHERE transaction = pg_current_xact_id_if_assigned() AND name = account_name COLLATE "C";
    END IF;
    RETURN number;
END $$;
COMMENT ON FUNCTION number_of(text) IS 'The number of the account of this name; null if it has none yet. Plan: account_name_key, newcomer_by_name.';

CREATE FUNCTION name_of(number int) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT name FROM account WHERE id = number),
        (SELECT name FROM newcomer WHERE transaction = pg_current_xact_id_if_assigned() AND id = number))
$$;
COMMENT ON FUNCTION name_of(int) IS 'The name of the account with this number. Plan: account_pkey; newcomer_by_name, for this transaction, which has few.';

CREATE FUNCTION introduce(account_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE number int := number_of(account_name);
BEGIN
    IF number IS NULL THEN
        INSERT INTO newcomer (id, name) VALUES (nextval('account_id'), account_name);
        -- After SET CONSTRAINTS … IMMEDIATE the trigger has run already: the account may be one that another has created.
        number := number_of(account_name);
    END IF;
    RETURN number;
END $$;
COMMENT ON FUNCTION introduce(text) IS 'The number of the account of this name, which is created at the commit if the name is new. Does not wait. Plan: as number_of.';

CREATE FUNCTION settle_one(met newcomer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE number int;
BEGIN
    INSERT INTO account VALUES (met.id, met.name, false) ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND THEN
        SELECT id INTO number FROM account WHERE name = met.name;
        UPDATE message SET sender_id = number WHERE ring = 2 AND sender_id = met.id AND queue_id > 0 AND due_ms IS NULL;
        UPDATE message SET recipient_id = number WHERE ring = 2 AND recipient_id = met.id AND sender_id > 0 AND due_ms IS NULL;
        PERFORM pg_notify('posthaste', '0 *');
    END IF;
    DELETE FROM newcomer WHERE transaction = met.transaction AND name = met.name;
END $$;
COMMENT ON FUNCTION settle_one(newcomer) IS
'Turns a newcomer into an account. If another transaction has created that meanwhile, the messages get its number. Plan: account_name_key, newcomer_by_name; message_by_sender, message_by_queue.';

CREATE FUNCTION settle() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE met newcomer;
BEGIN
    -- The first call settles all newcomers; without this check the other calls would read the rows of all once more.
    IF NOT EXISTS (SELECT FROM newcomer WHERE transaction = pg_current_xact_id() AND name = NEW.name) THEN
        RETURN null;
    END IF;
    -- In the order in which a batch creates accounts.
    FOR met IN SELECT * FROM newcomer WHERE transaction = pg_current_xact_id() ORDER BY name COLLATE "default" LOOP
        PERFORM settle_one(met);
    END LOOP;
    RETURN null;
END $$;
COMMENT ON FUNCTION settle() IS 'Runs at the commit: turns the transaction''s newcomers into accounts. Plan: newcomer_by_name; as settle_one.';
CREATE CONSTRAINT TRIGGER settle AFTER INSERT ON newcomer DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION settle();
-- Also in sessions that apply changes as a replica, where for instance an application's trigger may send.
ALTER TABLE newcomer ENABLE ALWAYS TRIGGER settle;

-- News -------------------------------------------------------------------------------------------------------------

-- Always empty: a row is inserted and deleted at once, only for its trigger, which runs at the commit.
CREATE UNLOGGED TABLE announcement (
    queue_id bigint NOT NULL,
    sender_id int NOT NULL,
    recipient_id int NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
BEGIN
    -- A transaction with one snapshot for all statements cannot see which middlewares have begun to wait since.
    IF NOT is_read_committed()
        OR EXISTS (SELECT FROM watch WHERE until_ms > now_ms()) THEN
        PERFORM pg_notify('posthaste', format('0 %s,%s,%s', NEW.queue_id, NEW.sender_id, NEW.recipient_id));
    END IF;
    RETURN null;
END $$;
COMMENT ON FUNCTION announce() IS
'Runs at the commit: notifies middlewares whose clients wait of what became available, in the form of tell_news (0: sent by no middleware). If none waits there is no NOTIFY, since that makes commits take turns. Plan: watch, which has a row for each middleware.';
CREATE CONSTRAINT TRIGGER announce AFTER INSERT ON announcement DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION announce();
ALTER TABLE announcement ENABLE ALWAYS TRIGGER announce;

CREATE FUNCTION announce_later(queue bigint, sender int, recipient int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE place tid;
BEGIN
    INSERT INTO announcement VALUES (queue, sender, recipient) RETURNING ctid INTO place;
    DELETE FROM announcement WHERE ctid = place;
END $$;
COMMENT ON FUNCTION announce_later(bigint, int, int) IS
'Has the commit notify that a message became available; sender 0: that the queue was deleted. Plan: Tid Scan.';

-- What clients call ------------------------------------------------------------------------------------------------

CREATE FUNCTION login(account text, secret text DEFAULT null) RETURNS int LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
BEGIN
    PERFORM check_name('account', account);
    -- Messages that this transaction has sent to or from the account must have its final number.
    PERFORM settle_one(n) FROM newcomer n
        WHERE n.transaction = pg_current_xact_id_if_assigned() AND n.name = account COLLATE "C";
    RETURN log_in(account);
END $$;
COMMENT ON FUNCTION login(text, text) IS
'Logs an account in and returns its id; creates it if the name is new. From now on it counts as one that has logged in (STRICT, TO *). The secret is not checked: secrets are in a file of the middlewares, and access by SQL is a matter of database roles. The other functions need no login. Best in a transaction of its own, since other logins under the same new name wait for its end. Plan: newcomer_by_name; as settle_one; account_name_key, account_pkey.';

CREATE FUNCTION create_queue(name text DEFAULT null) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE number bigint;
BEGIN
    IF name IS NULL THEN
        RETURN add_queue(null);
    END IF;
    PERFORM check_name('queue', name);
    SELECT q.id INTO number FROM queue q WHERE q.name = create_queue.name COLLATE "C";
    IF number IS NOT NULL THEN
        RETURN number;
    END IF;
    -- Tries the lock again and again instead of waiting for it, so that it cannot be part of a deadlock.
    FOR attempt IN 1..200 LOOP
        IF try_lock_name(name) THEN
            RETURN add_queue(name);
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    PERFORM refuse('PHBSY', format('another transaction is making queue ''%s'' and has not ended', name), 'Try again.');
END $$;
COMMENT ON FUNCTION create_queue(text) IS
'The id of a queue, which is created if the name is new; without a name it is named by its id. Other transactions that create the same queue wait for the end of this one, so do not leave it open. Plan: queue_name_key.';

CREATE FUNCTION find_queue(wanted text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE number bigint;
BEGIN
    PERFORM check_name('queue', wanted);
    SELECT q.id INTO number FROM queue q WHERE q.name = wanted COLLATE "C";
    IF number IS NULL THEN
        PERFORM refuse('PHNOQ', format('no queue is called ''%s''', wanted), 'Create it with posthaste.create_queue.');
    END IF;
    RETURN number;
END $$;
COMMENT ON FUNCTION find_queue(text) IS 'The id of a queue that must exist. Plan: queue_name_key.';

CREATE FUNCTION delete_queue(queue text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    number bigint := find_queue(queue);
    removed bigint;
BEGIN
    PERFORM check_isolation();
    -- A transaction may delete several queues; each time it may wait anew.
    PERFORM set_config('posthaste.waited', '', true);
    removed := remove_queue(number, 'remove');
    IF removed IS NULL THEN
        PERFORM refuse_as(refused(null, 'in_use'), queue, null);
    ELSIF removed = -1 THEN
        PERFORM refuse('PHNOQ', format('queue ''%s'' was deleted just now', queue), 'There is nothing left to delete.');
    END IF;
    PERFORM announce_later(number, 0, 0);
    RETURN removed;
END $$;
COMMENT ON FUNCTION delete_queue(text) IS
'Removes a queue with its messages, and returns how many these were. PHBSY while another transaction sends to it or takes from it. Requests that use the queue wait for the end of the transaction, those of a middleware for 30 s, so do not leave it open. Plan: queue_name_key; as remove_queue.';

CREATE FUNCTION body_bytes_max() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 524288000 $$;
COMMENT ON FUNCTION body_bytes_max() IS 'The largest body in bytes: RESP clients must be able to read the message, and as text, in which a dump or psql has it, two bytes for each must fit into 1 GiB.';

CREATE FUNCTION send(sender text, queue text, body bytea, recipient text DEFAULT null) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    q queue;
    from_id int;
    to_all constant boolean := recipient COLLATE "C" = '*';
    refused answer;
    copies int[] := '{0}';
    copy int;
    number bigint;
BEGIN
    PERFORM check_name('sender', sender);
    PERFORM check_name('recipient', recipient) WHERE NOT to_all;
    IF body IS NULL THEN
        PERFORM refuse('PHBAD', 'a message has a body', 'Send an empty one rather than null.');
    ELSIF octet_length(body) > body_bytes_max() THEN
        PERFORM refuse('PHTOO', format('the body has %s bytes, and %s are the most', octet_length(body), body_bytes_max()),
            'Send less, or where it is to be found.');
    END IF;
    number := find_queue(queue);
    SELECT * INTO q FROM posthaste.queue WHERE id = number FOR KEY SHARE;
    IF q.id IS NULL THEN
        PERFORM refuse('PHNOQ', format('queue ''%s'' was deleted just now', queue), 'Create it with posthaste.create_queue.');
    END IF;
    from_id := introduce(sender);
    IF to_all THEN
        copies := ARRAY(SELECT id FROM account WHERE known AND id <> from_id ORDER BY id);
    END IF;
    -- The rules look up names in `account`, which lacks newcomers, so FORBIDSELF is checked here.
    IF are_too_many(cardinality(copies), body, null) THEN
        refused := refused(null, 'full_copies', cardinality(copies));
    ELSIF q.forbid_self AND recipient COLLATE "C" = sender THEN
        refused := refused(null, 'forbidden_self');
    ELSIF q.guarded THEN
        refused := refusal_beside(null, q, from_id, recipient COLLATE "C", cardinality(copies),
            cardinality(copies)::bigint * octet_length(body));
    END IF;
    IF refused.kind IS NOT NULL THEN
        PERFORM refuse_as(refused, queue, recipient);
    END IF;
    IF NOT to_all THEN
        copies := ARRAY[introduce(recipient)];
    END IF;
    FOREACH copy IN ARRAY copies LOOP
        number := put(now_ms(), 2::smallint, from_id, copy, q, body, null, 0, null, 0);
        PERFORM announce_later(q.id, from_id, copy);
    END LOOP;
    RETURN CASE WHEN to_all THEN cardinality(copies) ELSE number END;
END $$;
COMMENT ON FUNCTION send(text, text, bytea, text) IS
'Sends a message to one account, or without a recipient to the first reader, and returns its id. Recipient *: sends a copy to every account that has ever logged in, except the sender, and returns how many. The message can be read once the transaction commits; after a rollback it was never sent. Plan: queue_name_key, queue_pkey, account_name_key, one INSERT for each copy; * reads all accounts; as refusal_beside where the queue has limits.';

CREATE FUNCTION send(sender text, queue text, body text, recipient text DEFAULT null) RETURNS bigint LANGUAGE sql
SECURITY DEFINER SET search_path = posthaste, pg_temp AS $$
    SELECT send(sender, queue, convert_to(body, 'UTF8'), recipient)
$$;
COMMENT ON FUNCTION send(text, text, text, text) IS 'Sends a message, as send with a bytea body does, whose body is text, stored as UTF-8. Plan: as it.';

CREATE FUNCTION pairs_of(stored bytea) RETURNS bytea[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    pairs bytea[];
    pair bytea[] := '{}';
    at int := 1;
    size int;
BEGIN
    WHILE at <= octet_length(stored) LOOP
        size := get_byte(stored, at - 1) + (get_byte(stored, at) << 8) + (get_byte(stored, at + 1) << 16) + (get_byte(stored, at + 2) << 24);
        pair := pair || substring(stored FROM at + 4 FOR size);
        at := at + 4 + size;
        IF cardinality(pair) = 2 THEN
            pairs := pairs || ARRAY[pair];
            pair := '{}';
        END IF;
    END LOOP;
    RETURN pairs;
END $$;
COMMENT ON FUNCTION pairs_of(bytea) IS 'Headers as an array {{name,value},…}, from the form in which they are stored.';

CREATE FUNCTION received_from(a answer) RETURNS received LANGUAGE sql STABLE AS $$
    SELECT ROW(a.number, a.name, name_of(a.sender_id), CASE WHEN a.recipient_id <> 0 THEN name_of(a.recipient_id) END,
        timestamptz 'epoch' + a.sent_ms * interval '1 millisecond', a.deliveries, pairs_of(a.headers), a.origin, a.reason,
        a.body)::received
$$;
COMMENT ON FUNCTION received_from(answer) IS 'An answer of the rules in the form that SQL clients get. Plan: account_pkey.';

CREATE FUNCTION check_query(reader text, queue text, sender text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM check_name('reader', reader);
    PERFORM check_name('sender', sender) WHERE sender IS NOT NULL;
    IF queue IS NULL AND sender IS NULL THEN
        PERFORM refuse('PHBAD', 'peek and pop need a queue or a sender', 'Give queue => or sender => or both.');
    END IF;
END $$;
COMMENT ON FUNCTION check_query(text, text, text) IS 'Fails unless a read names a reader, and a queue or a sender or both.';

CREATE FUNCTION peek(reader text, queue text DEFAULT null, sender text DEFAULT null) RETURNS SETOF received
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    here answer;
    queue_number bigint;
    sender_number int;
BEGIN
    PERFORM check_isolation();
    PERFORM check_query(reader, queue, sender);
    queue_number := CASE WHEN queue IS NOT NULL THEN find_queue(queue) END;
    sender_number := CASE WHEN sender IS NOT NULL THEN coalesce(number_of(sender), 0) END;
    FOR here IN SELECT * FROM peek_one(null, now_ms(), number_of(reader), queue_number, sender_number, false, false, 1) AS a
        WHERE a.kind = 'm'
    LOOP
        RETURN NEXT received_from(here);
    END LOOP;
END $$;
COMMENT ON FUNCTION peek(text, text, text) IS
'The message that pop would take, which stays in its queue; no row if there is none. Plan: queue_name_key, account_name_key; as heads.';

CREATE FUNCTION pop(reader text, queue text DEFAULT null, sender text DEFAULT null) RETURNS SETOF received
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    here answer;
    queue_number bigint;
    sender_number int;
BEGIN
    PERFORM check_isolation();
    PERFORM check_query(reader, queue, sender);
    queue_number := CASE WHEN queue IS NOT NULL THEN find_queue(queue) END;
    sender_number := CASE WHEN sender IS NOT NULL THEN coalesce(number_of(sender), 0) END;
    -- A transaction may pop again long after it has waited; then it may wait anew.
    PERFORM set_config('posthaste.moves_awaited_until', '', true);
    FOR here IN SELECT * FROM pop_one(null, now_ms(), number_of(reader), queue_number, sender_number, false, false, 1, null,
            beside => true) AS a
        WHERE a.kind = 'm'
    LOOP
        RETURN NEXT received_from(here);
    END LOOP;
END $$;
COMMENT ON FUNCTION pop(text, text, text) IS
'Takes the oldest message (higher priority first) that is for anyone or for the reader, of a queue or from a sender or both; no row if there is none. The commit removes the message, a rollback puts it back where it was; until then others pass it over and take the next. Before it returns no row, pop waits for a QREDRIVE, QPURGE or QDELETE, half a second at most. Plan: queue_name_key, account_name_key; as pop_one.';

CREATE FUNCTION readable(reader text, not_own boolean DEFAULT false) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    queues bigint[];
BEGIN
    PERFORM check_isolation();
    PERFORM check_name('reader', reader);
    IF not_own THEN
        queues := queues_with_others(now_ms(), coalesce(number_of(reader), 0));
    ELSE
        queues := ARRAY(SELECT w.queue FROM queues_with(now_ms(), ARRAY[0, number_of(reader)], noted_floor(), '{0, 1, 2}') AS w);
    END IF;
    RETURN QUERY SELECT q.name FROM queue q WHERE q.id = ANY(queues) ORDER BY q.id;
END $$;
COMMENT ON FUNCTION readable(text, boolean) IS
'Names of the queues that hold something for the reader, by ascending id; with not_own something that another account sent. Plan: account_name_key; as queues_with, one seek for each of them; as queues_with_others.';

-- Rights -----------------------------------------------------------------------------------------------------------

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA posthaste FROM PUBLIC;
GRANT EXECUTE ON FUNCTION login(text, text), create_queue(text), delete_queue(text), send(text, text, bytea, text),
    send(text, text, text, text), peek(text, text, text), pop(text, text, text), readable(text, boolean) TO PUBLIC;
