//! What a database holds whose plans are looked at, as SQL.

/// One million: 900,000 in the part of the ring that is read, 30,000 in the one appended to, the rest aside, some of
/// them leased or delayed, far from due. Every 16th has a recipient, every 8th an expiry. What leaves is noted, as it
/// is while a queue is full.
pub(crate) const LOAD: &str = "
    INSERT INTO posthaste.account SELECT n, 'account ' || n, true FROM generate_series(1, 256) n;
    INSERT INTO posthaste.queue (id, name) SELECT n, 'queue ' || n FROM generate_series(1, 1000) n;
    SELECT nextval('posthaste.ring_turn');
    INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
        deliveries, sent_ms, expires_ms, body)
    SELECT CASE WHEN n <= 900000 THEN 0 WHEN n <= 930000 THEN 1 ELSE 2 END, n, posthaste.place_of(0, n), 1 + n % 1000,
        1 + (n / 7) % 256, CASE WHEN n % 16 = 0 THEN 1 + (n / 16) % 256 ELSE 0 END,
        CASE WHEN n > 960000 THEN posthaste.now_ms() + 3600000 + n END, CASE WHEN n > 980000 THEN 1 END,
        CASE WHEN n > 980000 THEN n END, CASE WHEN n > 980000 THEN 1 ELSE 0 END, posthaste.now_ms(),
        CASE WHEN n % 8 = 0 THEN posthaste.now_ms() + 7200000 END, 'a body'
    FROM generate_series(1, 1000000) n;
    SELECT setval('posthaste.account_id', 256), setval('posthaste.queue_id', 1000), setval('posthaste.message_id', 1000000);
    SELECT setval('posthaste.room_noted_until', posthaste.now_ms() + 7200000);
";

/// A stock that nobody reads, in three of a thousand queues: whoever plans for that expects to meet one of these soon.
pub(crate) const STOCK: &str = "
    INSERT INTO posthaste.account SELECT n, 'account ' || n, true FROM generate_series(1, 256) n;
    INSERT INTO posthaste.queue (id, name) SELECT n, 'queue ' || n FROM generate_series(1, 1000) n;
    INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, deliveries, sent_ms, body)
    SELECT 2, n, posthaste.place_of(0, n), 5 + n % 3, 1 + (n / 7) % 256, CASE WHEN n % 16 = 0 THEN 1 + (n / 16) % 256 ELSE 0 END,
        0, posthaste.now_ms(), 'a body'
    FROM generate_series(100001, 160000) n;
    SELECT setval('posthaste.account_id', 256), setval('posthaste.queue_id', 1000), setval('posthaste.message_id', 160000);
";

/// And leases of many, which end in an hour.
pub(crate) const LEASES: &str = "
    INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt, sent_ms, body)
    SELECT 2, n, n, 5 + n % 3, 1, 0, posthaste.now_ms() + 3600000, 1, n, 1, '' FROM generate_series(1, 60000) n";
