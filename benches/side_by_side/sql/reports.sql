-- The reports' design: three tables, one stored function per request, an index on queue and one on sender, and pops
-- that select the oldest message, delete it, and try again when another client was faster.
--
-- Every function is volatile, so that each statement in the loop sees what others have committed meanwhile.

CREATE TABLE account (id int PRIMARY KEY);
CREATE TABLE queue (id bigserial PRIMARY KEY);
CREATE TABLE message (
    id bigserial PRIMARY KEY,
    sender_id int NOT NULL,
    recipient_id int,
    queue_id bigint NOT NULL REFERENCES queue (id) ON DELETE CASCADE,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    content text NOT NULL
);
CREATE INDEX message_queue ON message (queue_id);
CREATE INDEX message_sender ON message (sender_id);

CREATE FUNCTION create_queue() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    created bigint;
BEGIN
    INSERT INTO queue DEFAULT VALUES RETURNING id INTO created;
    RETURN created;
END $$;

CREATE FUNCTION delete_queue(which bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM queue WHERE id = which;
    RETURN FOUND;
END $$;

CREATE FUNCTION write_message(sender int, which bigint, body text, recipient int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    written bigint;
BEGIN
    IF recipient IS NULL THEN
        INSERT INTO message (sender_id, queue_id, content) VALUES (sender, which, body) RETURNING id INTO written;
    ELSE
        INSERT INTO message (sender_id, recipient_id, queue_id, content) VALUES (sender, recipient, which, body)
            RETURNING id INTO written;
    END IF;
    RETURN written;
EXCEPTION WHEN foreign_key_violation THEN
    RAISE EXCEPTION 'queue does not exist';
END $$;

CREATE FUNCTION select_message(recipient int, sender int, which bigint) RETURNS SETOF message LANGUAGE plpgsql AS $$
BEGIN
    IF sender IS NULL THEN
        RETURN QUERY SELECT * FROM message
            WHERE queue_id = which AND (recipient_id IS NULL OR recipient_id = recipient) ORDER BY id LIMIT 1;
    ELSIF which IS NULL THEN
        RETURN QUERY SELECT * FROM message
            WHERE sender_id = sender AND (recipient_id IS NULL OR recipient_id = recipient) ORDER BY id LIMIT 1;
    ELSE
        RETURN QUERY SELECT * FROM message
            WHERE queue_id = which AND sender_id = sender AND (recipient_id IS NULL OR recipient_id = recipient)
            ORDER BY id LIMIT 1;
    END IF;
END $$;

CREATE FUNCTION read_message(recipient int, sender int, which bigint, peek boolean)
RETURNS SETOF message LANGUAGE plpgsql AS $$
DECLARE
    found_message message;
BEGIN
    LOOP
        SELECT * INTO found_message FROM select_message(recipient, sender, which);
        IF NOT FOUND THEN
            IF which IS NOT NULL AND NOT EXISTS (SELECT FROM queue WHERE id = which) THEN
                RAISE EXCEPTION 'queue does not exist';
            END IF;
            RETURN;
        END IF;
        IF NOT peek THEN
            DELETE FROM message WHERE id = found_message.id;
            CONTINUE WHEN NOT FOUND;
        END IF;
        RETURN NEXT found_message;
        RETURN;
    END LOOP;
END $$;

CREATE FUNCTION find_queues(reader int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT DISTINCT queue_id FROM message
        WHERE recipient_id IS NULL OR recipient_id = reader ORDER BY queue_id;
END $$;

INSERT INTO account SELECT generate_series(1, 256);
INSERT INTO queue SELECT FROM generate_series(1, 30);
