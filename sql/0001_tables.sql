-- Tables of the queue tier.
--
-- The layout in one paragraph. Messages stand in one table of three parts. Two of them, message_0 and message_1, are
-- the ring: whoever holds a queue's row lock appends plain messages to the current one, so within a queue ids there
-- grow in the order of commits. Rows of the ring are never updated: a message leaves by DELETE, and when the part that
-- is not appended to has run empty it is truncated, table and indexes, to take its turn again. So no vacuum is needed on the hot path,
-- and a transaction held open elsewhere, which keeps dead rows from being removed, does not keep TRUNCATE from
-- giving their space back. Everything that breaks the simple order is kept aside, in message_aside: leased, delayed,
-- returned, dead, with a priority, sent by SQL within an application's transaction, or left behind in a part of the
-- ring that is about to be truncated. Reads look in both; aside is small.
--
-- Because the ring grows in order, a reader that has seen that nothing below some place is left need never look
-- there again: the middleware remembers these floors and hands them in, so a read walks no dead index entries.

CREATE SCHEMA posthaste;

COMMENT ON SCHEMA posthaste IS 'Durable message queues. Functions for SQL clients: login, create_queue, delete_queue, send, peek, pop, readable.';

SET LOCAL search_path = posthaste;

CREATE TABLE migration (
    number int PRIMARY KEY,
    name text NOT NULL,
    sha1 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE migration IS 'What posthaste migrate has done here: its files, and what sha1sum says of each.';

-- Accounts. A name gets its number when it is first met, be it as a recipient; it is known once it has logged in.
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
    -- STRICT: only recipients that have logged in.
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
    -- 0: anyone. A value in the index, not a null to filter, so that a read is two seeks: for anyone, for me.
    recipient_id int NOT NULL,
    -- Null: ready. Otherwise delayed or leased until then; leased when there is a holder.
    due_ms bigint,
    holder_id int,
    receipt bigint,
    deliveries int NOT NULL DEFAULT 0,
    sent_ms bigint NOT NULL,
    expires_ms bigint,
    -- Of a dead letter: the name of the queue it was sent to, and why it was given up.
    first_queue text COLLATE "C",
    reason text,
    -- For each pair a little-endian uint32 length and the name, then the same for the value.
    headers bytea,
    body bytea NOT NULL
) PARTITION BY LIST (ring);

-- Truncated, not vacuumed. Whoever keeps a part from being truncated keeps its dead rows too, as a rule; and a vacuum keeps
-- the index by place from being summarized for as long as it takes.
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
-- Bodies are stored as they come: compressing them costs more than it saves.
ALTER TABLE message_0 ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE message_1 ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE message_aside ALTER COLUMN body SET STORAGE EXTERNAL;

-- A publication FOR ALL TABLES would otherwise keep rows from being deleted here. It costs nothing unless wal_level is logical.
ALTER TABLE message_0 REPLICA IDENTITY FULL;
ALTER TABLE message_1 REPLICA IDENTITY FULL;

-- One index for each way of reading: by queue, by sender, by both. Recipient before queue, so that the queues that
-- hold something for a reader stand side by side. A reader by both could take any of the three and pass over what is from
-- others; to who plans for a few messages that looks as good. So of the other two each says something that is always
-- true, and only who says it too can use that index.
CREATE INDEX message_by_queue ON message (recipient_id, queue_id, place) WHERE due_ms IS NULL AND sender_id > 0;
CREATE INDEX message_by_sender ON message (sender_id, recipient_id, place) WHERE due_ms IS NULL AND queue_id > 0;
CREATE INDEX message_by_both ON message (queue_id, sender_id, recipient_id, place) WHERE due_ms IS NULL;
CREATE INDEX message_by_expiry ON message (expires_ms) WHERE expires_ms IS NOT NULL AND due_ms IS NULL;
CREATE UNIQUE INDEX message_aside_by_id ON message_aside (id);
ALTER TABLE message_aside REPLICA IDENTITY USING INDEX message_aside_by_id;
CREATE INDEX message_aside_by_due ON message_aside (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX message_aside_by_queue_due ON message_aside (queue_id, id) WHERE due_ms IS NOT NULL;

-- Which pages of the ring hold what is new, for when it cannot turn for long. Costs next to nothing: nothing is written there
-- before somebody has its ranges summarized.
CREATE INDEX message_0_by_place ON message_0 USING brin (place) WITH (pages_per_range = 32);
CREATE INDEX message_1_by_place ON message_1 USING brin (place) WITH (pages_per_range = 32);

-- Which part of the ring is appended to: how often it has turned, odd or even. A sequence, because it can be read without
-- a statement.
CREATE SEQUENCE ring_turn MINVALUE 0;
SELECT nextval('ring_turn');
-- Since when.
CREATE TABLE ring (
    since_ms bigint NOT NULL
);
ALTER TABLE ring REPLICA IDENTITY FULL;
INSERT INTO ring VALUES (0);

-- Below which place nothing of the ring is left, as middlewares find out now and then. In a table: in a dump a sequence may be newer than
-- the rows beside it. Each finding is a further row, and the highest is true, so that dead rows are not walked.
CREATE TABLE ring_floor (
    place bigint PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Answers given again to a repeated request: DEDUP of SEND, REQID of POP.
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
    -- Whether an array was asked for: the same answer is given again.
    counted boolean NOT NULL,
    PRIMARY KEY (account_id, queue_id, key)
);
CREATE INDEX remembered_pop_by_end ON remembered_pop (ends_ms);

-- Middlewares whose clients wait for a message: while there are some, sends tell them.
CREATE TABLE watch (
    middleware bigint PRIMARY KEY,
    until_ms bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000);
