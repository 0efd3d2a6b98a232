-- Upkeep: what a middleware asks for from time to time, and what keeps the tables flat.

SET LOCAL search_path = posthaste;

CREATE FUNCTION upkeep(given_ms bigint, most int) RETURNS SETOF answer LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT * FROM tick(coalesce(given_ms, now_ms()), most);
END $$;
COMMENT ON FUNCTION upkeep(bigint, int) IS 'Lets time pass, for at most so many messages of each kind.';

CREATE FUNCTION watch_news(who bigint, keep_ms bigint) RETURNS void LANGUAGE sql
SET search_path = posthaste, pg_temp AS $$
    DELETE FROM watch WHERE until_ms <= now_ms();
    INSERT INTO watch VALUES (who, now_ms() + keep_ms) ON CONFLICT (middleware) DO UPDATE SET until_ms = excluded.until_ms
$$;
COMMENT ON FUNCTION watch_news(bigint, bigint) IS 'Clients of this middleware wait for messages: sends elsewhere are to be told for so long.';

CREATE FUNCTION tell_news(who bigint, news text) RETURNS boolean LANGUAGE plpgsql
SET search_path = posthaste, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM watch WHERE middleware <> who AND until_ms > now_ms()) THEN
        PERFORM pg_notify('posthaste', who::text || ' ' || news);
        RETURN true;
    END IF;
    RETURN false;
END $$;
COMMENT ON FUNCTION tell_news(bigint, text) IS
'Tells other middlewares that messages became available, if any of them waits. Called after the commit that made them available, for many at once, so that NOTIFY''s lock is never held by a batch.';

-- The ring ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION turn_ring(bytes_min bigint, patience_ms int) RETURNS text LANGUAGE plpgsql
SET search_path = posthaste, pg_temp SET jit = off AS $$
DECLARE
    now_part smallint;
    other text;
    current_bytes bigint;
    most_moved bigint;
    other_live bigint;
    moved bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('posthaste.ring'), 0) THEN
        RETURN 'another middleware turns it';
    END IF;
    SELECT current INTO now_part FROM ring;
    other := 'message_' || (1 - now_part);
    -- Its dead rows count, for they cost space.
    current_bytes := pg_relation_size('posthaste.message_' || now_part);
    IF current_bytes < bytes_min THEN
        RETURN null;
    END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    BEGIN
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', other);
    EXCEPTION WHEN lock_not_available THEN
        RETURN 'somebody reads ' || other;
    END;
    -- What nobody has read for a whole turn is set aside, unless it is so much that letting the ring grow is cheaper:
    -- a fifth of what was sent since, counting 300 bytes for a message.
    most_moved := current_bytes / 1500;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %I LIMIT $1) AS l', other) INTO other_live USING most_moved + 1;
    IF other_live > most_moved THEN
        RETURN 'backlog in ' || other;
    END IF;
    EXECUTE format('INSERT INTO message_aside (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
        deliveries, sent_ms, expires_ms, first_queue, reason, headers, body)
        SELECT 2, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt, deliveries, sent_ms, expires_ms,
        first_queue, reason, headers, body FROM %I', other);
    GET DIAGNOSTICS moved = ROW_COUNT;
    EXECUTE format('TRUNCATE %I', other);
    UPDATE ring SET current = 1 - now_part, since_ms = now_ms();
    RETURN 'turned, ' || moved || ' messages set aside';
END $$;
COMMENT ON FUNCTION turn_ring(bigint, int) IS
'Empties the part of the ring that was not appended to, and appends to it from now on; waits for readers of it at most so long. What a transaction elsewhere holds open does not matter: TRUNCATE gives the space of dead rows back at once.';

CREATE FUNCTION log_in_as(who text) RETURNS int LANGUAGE sql
SET search_path = posthaste, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off AS $$
    SELECT log_in(who)
$$;
COMMENT ON FUNCTION log_in_as(text) IS 'log_in, for the middleware.';
