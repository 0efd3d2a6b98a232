-- Tables of the queue tier.
--
-- Messages are stored in one table of three parts.
--
-- Two parts, message_0 and message_1, are the ring. A transaction that holds a queue's row lock appends plain messages
-- to the current part, so within a queue ids there grow in the order of commits. Rows of the ring are never updated: a
-- message is removed by DELETE, and when the part that is not appended to has become empty it is truncated, table and
-- indexes, and can be appended to again. So the hot path needs no vacuum, and a transaction held open elsewhere, which
-- keeps dead rows from being removed, does not keep TRUNCATE from giving their space back.
--
-- The third part, message_aside, has every message that breaks this order: leased, delayed, returned, dead, with a
-- priority, sent by SQL within an application's transaction, or left over in a part of the ring that is about to be
-- truncated. Reads look in all three parts; message_aside is small.
--
-- Because the ring grows in order, a reader that has found nothing below some place need never look there again: the
-- middleware remembers these floors and passes them in, so a read walks no dead index entries.

CREATE SCHEMA posthaste;

COMMENT ON SCHEMA posthaste IS 'Durable message queues. Functions for SQL clients: login, create_queue, delete_queue, send, peek, pop, readable.';

SET LOCAL search_path = posthaste;

CREATE TABLE migration (
    number int PRIMARY KEY,
    name text NOT NULL,
    sha1 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE migration IS 'The files that posthaste migrate has applied to this database, with the SHA-1 of each.';

-- Accounts. A name gets its number when it is first used, even as a recipient only; `known` is set at its first login.
CREATE SEQUENCE account_id AS int;
CREATE TABLE account (
    id int PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    known boolean NOT NULL
);

-- Queues. Every batch locks the rows of the queues it changes, in the order of their names.
CREATE SEQUENCE queue_id;
CREATE TABLE queue (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    messages_max bigint,
    bytes_max bigint,
    ttl_ms bigint,
    dead_letter text COLLATE "C",
    dead_after int,
    forbid_self boolean NOT NULL DEFAULT false,
    -- STRICT: the queue accepts only recipients that have logged in.
    only_known boolean NOT NULL DEFAULT false,
    -- Whether a SEND must look at more than the queue's existence.
    guarded boolean NOT NULL GENERATED ALWAYS AS (
        messages_max IS NOT NULL OR bytes_max IS NOT NULL OR ttl_ms IS NOT NULL OR forbid_self OR only_known
    ) STORED
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE SEQUENCE message_id;
CREATE TABLE message (
    ring smallint NOT NULL,
    id bigint NOT NULL,
    -- Reading order: (255 - priority) * 2^54 + id. Higher priority first, then lower id.
    place bigint NOT NULL,
    queue_id bigint NOT NULL,
    sender_id int NOT NULL,
    -- 0: anyone. A value and not null, so that a read is two index seeks: one for anyone, one for the reader.
    recipient_id int NOT NULL,
    -- Null: ready. Otherwise the message is leased (if holder_id is set) or delayed until this time.
    due_ms bigint,
    holder_id int,
    receipt bigint,
    deliveries int NOT NULL DEFAULT 0,
    sent_ms bigint NOT NULL,
    expires_ms bigint,
    -- For a dead letter: the name of the queue it was sent to, and why it became one.
    first_queue text COLLATE "C",
    reason text,
    -- For each header the name and then the value, each preceded by its length as a little-endian uint32.
    headers bytea,
    body bytea NOT NULL
) PARTITION BY LIST (ring);

-- The ring is truncated, not vacuumed. A transaction that prevents the one mostly prevents the removal of dead rows too,
-- and while a vacuum runs the index by place cannot be summarized.
CREATE TABLE message_0 PARTITION OF message FOR VALUES IN (0) WITH (
    autovacuum_enabled = false, toast.autovacuum_enabled = false, toast_tuple_target = 4096
);
CREATE TABLE message_1 PARTITION OF message FOR VALUES IN (1) WITH (
    autovacuum_enabled = false, toast.autovacuum_enabled = false, toast_tuple_target = 4096
);
CREATE TABLE message_aside PARTITION OF message FOR VALUES IN (2) WITH (
    fillfactor = 80, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0, toast_tuple_target = 4096
);
-- Bodies are stored uncompressed: compressing them costs more than it saves.
ALTER TABLE message_0 ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE message_1 ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE message_aside ALTER COLUMN body SET STORAGE EXTERNAL;

-- Without a replica identity, a publication FOR ALL TABLES would make every DELETE here fail. This costs nothing unless
-- wal_level is logical.
ALTER TABLE message_0 REPLICA IDENTITY FULL;
ALTER TABLE message_1 REPLICA IDENTITY FULL;

-- One index for each way of reading: by queue, by sender, by both. The recipient precedes the queue, so that the queues
-- which hold something for a reader are adjacent. A read by both could use any of the three and filter, which looks as
-- good to a planner that expects few messages. So the other two indexes have a condition that is always true, and only
-- a query that repeats the condition can use the index.
CREATE INDEX message_by_queue ON message (recipient_id, queue_id, place) WHERE due_ms IS NULL AND sender_id > 0;
CREATE INDEX message_by_sender ON message (sender_id, recipient_id, place) WHERE due_ms IS NULL AND queue_id > 0;
CREATE INDEX message_by_both ON message (queue_id, sender_id, recipient_id, place) WHERE due_ms IS NULL;
CREATE INDEX message_by_expiry ON message (expires_ms) WHERE expires_ms IS NOT NULL AND due_ms IS NULL;
CREATE UNIQUE INDEX message_aside_by_id ON message_aside (id);
ALTER TABLE message_aside REPLICA IDENTITY USING INDEX message_aside_by_id;
CREATE INDEX message_aside_by_due ON message_aside (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX message_aside_by_queue_due ON message_aside (queue_id, id) WHERE due_ms IS NOT NULL;

-- These indexes find the newest pages of a ring that has not turned for long. They cost next to nothing: nothing is
-- written to them until their ranges are summarized.
CREATE INDEX message_0_by_place ON message_0 USING brin (place) WITH (pages_per_range = 32);
CREATE INDEX message_1_by_place ON message_1 USING brin (place) WITH (pages_per_range = 32);

-- How often the ring has turned; its parity is the part that is appended to. A sequence can be read without a statement.
CREATE SEQUENCE ring_turn MINVALUE 0;
SELECT nextval('ring_turn');
-- When the ring turned last.
CREATE TABLE ring (
    since_ms bigint NOT NULL
);
ALTER TABLE ring REPLICA IDENTITY FULL;
INSERT INTO ring VALUES (0);

-- A place below which the ring holds nothing, as middlewares find out now and then. It is not a sequence, which in a dump
-- may be newer than the tables. Each new place is a further row, and the highest is valid, so no dead rows are walked.
CREATE TABLE ring_floor (
    place bigint PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Replies remembered for a repeated request: DEDUP of SEND, REQID of POP.
CREATE TABLE remembered_send (
    account_id int NOT NULL,
    queue_id bigint NOT NULL,
    key bytea NOT NULL,
    ends_ms bigint NOT NULL,
    answer bigint NOT NULL,
    PRIMARY KEY (account_id, queue_id, key)
);
CREATE INDEX remembered_send_by_end ON remembered_send (ends_ms);
CREATE TABLE remembered_pop (
    account_id int NOT NULL,
    -- 0: the request named no queue.
    queue_id bigint NOT NULL,
    key bytea NOT NULL,
    ends_ms bigint NOT NULL,
    -- The messages as they were handed out.
    messages message[] NOT NULL,
    queue_names text[] NOT NULL,
    -- Whether the POP asked for an array, so that the repeated reply has the same form.
    counted boolean NOT NULL,
    PRIMARY KEY (account_id, queue_id, key)
);
CREATE INDEX remembered_pop_by_end ON remembered_pop (ends_ms);

-- Middlewares whose clients wait for a message, with the time until which they are to be notified of new messages.
CREATE TABLE watch (
    middleware bigint PRIMARY KEY,
    until_ms bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000);
