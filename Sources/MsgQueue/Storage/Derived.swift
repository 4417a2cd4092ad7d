/// A table, an index or a column whose content follows from the messages or from another table.
///
/// `all(ofLayout:)` is the only list of them. `msgq_check`, the opening, the background check and the tests compare what it contains, by
/// `DerivedCheck`; the counts by conversation are compared beside it, because they are sums.
struct Derived {
    struct Key {
        let column: String
        let isText: Bool

        static func text(_ column: String) -> Key { Key(column: column, isText: true) }
        static func number(_ column: String) -> Key { Key(column: column, isText: false) }
    }

    /// The name in the schema. A store of an earlier build may not have it.
    let name: SQL
    /// `PRAGMA integrity_check` compares it as well, where all of the store is read at once.
    var isIndex = false
    /// The order of the entries.
    var keys: [Key] = []
    /// The entries as `i`, with a condition; nil: it is a column of the messages.
    var entries: SQL?
    /// Whether an entry `i` is right. `?8`: rows of `message` up to this one are folded; `?9`: those up to this one are not in the
    /// history's index yet.
    var fits: SQL = "1"
    /// Whether the entry of a message `m` is missing; nil: it has none, or `fits` of another part looks for it.
    var lacks: SQL?

    /// For a person.
    var title: String { entries == nil ? "the column \(name.text)" : "the \(isIndex ? "index" : "table") \(name.text)" }

    /// What a store of a layout derives.
    static func all(ofLayout layout: Int64) -> [Derived] {
        let ofMessages = [
            Derived(name: "indexed", lacks: "m.indexed != (m.seq <= ?8)"),
            index("message_conversation", [.text("conversation"), .number("seq")], of: "indexed = 1"),
            index("message_waiting", [.text("conversation"), .number("seq")], of: "indexed = 1 AND status = \(.queued)"),
            index("message_named", [.text("id")], of: "named = 1"),
            index("message_expiring", [.number("expires_at"), .number("seq")], of: "expires_at != 0 AND status = \(.queued)"),
            index("message_failed", [.number("seq")], of: "status = \(.failed)"),
            index("message_failed_in", [.text("conversation"), .number("seq")], of: "status = \(.failed)"),
            index(
                "message_replace", [.text("conversation"), .text("replace_key")],
                of: "replace_key IS NOT NULL AND status = \(.queued)"),
            index("message_priority", [.number("priority"), .number("seq")], of: "priority != 0 AND status = \(.queued)"),
            history("history", [.number("status"), .number("seq")]),
            history("history_in", [.text("conversation"), .number("status"), .number("seq")]),
            ofMessages("large_body", [.number("seq")], "m.body IS NULL"),
            ofMessages("attempt", [.number("seq"), .number("number")]),
            ofMessages("in_flight", [.number("seq")]),
        ]
        let ofHistory = [
            Derived(
                name: "recent", keys: [.text("id")], entries: "recent AS i WHERE 1",
                fits: "EXISTS (SELECT 1 FROM recent AS r INDEXED BY recent_gone WHERE r.gone_at = i.gone_at AND r.id = i.id)"),
            Derived(
                name: "recent_gone", isIndex: true, keys: [.number("gone_at"), .text("id")],
                entries: "recent AS i INDEXED BY recent_gone WHERE 1",
                fits: "EXISTS (SELECT 1 FROM recent AS r WHERE r.id = i.id AND r.gone_at = i.gone_at)"),
            Derived(
                name: "recent_own", keys: [.number("seq")], entries: "recent_own AS i WHERE 1", fits: "i.seq > 0"),
        ]
        return ofMessages + ordered(ofLayout: layout) + (layout < Layout.withTimes ? [] : times)
            + (layout < Layout.withFailures ? [] : failures) + conversations(ofLayout: layout) + ofHistory
    }

    /// The queued messages in order. The two parts of the index are compared one after the other.
    private static func ordered(ofLayout layout: Int64) -> [Derived] {
        let condition: SQL = "indexed = 1 AND status = \(.queued)"
        guard layout >= Layout.withOrder else { return [index("message_queued", [.number("seq")], of: condition)] }
        return QueueIndex.parts.map { index("message_ordered", [.number("seq")], of: "\(condition) AND \($0)") }
    }

    /// The order by time. Rows with a `time_at` of 0 are before `timed_from`, and no such row was created before the previous one.
    private static let times = [
        Derived(
            name: "time_at",
            lacks: """
                m.time_at = 0 AND (m.seq >= \(timedFrom) OR m.created_at < (SELECT p.created_at FROM message AS p NOT INDEXED
                  WHERE p.seq < m.seq AND p.time_at = 0 ORDER BY p.seq DESC LIMIT 1))
                """),
        index("message_time", [.number("status"), .number("time_at"), .number("seq")], of: "indexed = 1 AND time_at != 0"),
        index(
            "message_time_in", [.text("conversation"), .number("status"), .number("time_at"), .number("seq")],
            of: "indexed = 1 AND time_at != 0"),
    ]

    /// The failed messages by group, and the queued ones that may have to wait.
    private static let failures =
        [
            Derived(
                name: "failure", keys: [.number("seq")], entries: "failure AS i WHERE 1",
                fits: """
                    EXISTS (SELECT 1 FROM (\(FailureIndex.failures) AND m.seq = i.seq) AS f
                      WHERE f.kind = i.kind AND f.code = i.code AND f.failed_at = i.failed_at AND f.conversation = i.conversation)
                    AND EXISTS (SELECT 1 FROM failure AS g INDEXED BY failure_group
                      WHERE g.kind = i.kind AND g.code = i.code AND g.seq = i.seq)
                    AND EXISTS (SELECT 1 FROM failure AS g INDEXED BY failure_group_in
                      WHERE g.conversation = i.conversation AND g.kind = i.kind AND g.code = i.code AND g.seq = i.seq)
                    AND EXISTS (SELECT 1 FROM failure_count AS c WHERE c.kind = i.kind AND c.code = i.code)
                    """,
                lacks: "m.status = \(.failed) AND NOT EXISTS (SELECT 1 FROM failure AS i WHERE i.seq = m.seq)"),
            Derived(
                name: "failure_count", keys: [.number("kind"), .number("code")], entries: "failure_count AS i WHERE 1",
                fits: """
                    i.count = (SELECT count(*) FROM failure AS f INDEXED BY failure_group WHERE f.kind = i.kind AND f.code = i.code)
                    AND i.count > 0 AND i.proof = \(FailureIndex.proof("i.count", "i.first_at", "i.last_at", "i.kind", "i.code"))
                    """),
            index("message_deferred", [.number("not_before"), .number("seq")], of: Schema.deferredCondition),
            index("message_due", [.number("due_at"), .number("seq")], of: "due_at != 0 AND status = \(.queued)"),
        ]
        + ["failure_group", "failure_group_in"].map { (name: SQL) in
            let group: [Key] = [.number("kind"), .number("code"), .number("seq")]
            let keys = name.text == "failure_group" ? group : [.text("conversation")] + group
            let equal = SQL(keys.map { SQL.equal("f", "i", $0.column) }, " AND ")
            return Derived(
                name: name, isIndex: true, keys: keys, entries: "failure AS i INDEXED BY \(name) WHERE 1",
                fits: "EXISTS (SELECT 1 FROM failure AS f NOT INDEXED WHERE f.seq = i.seq AND \(equal))")
        }

    private static let timedFrom: SQL = "(SELECT iif(timed_from > 0, timed_from, 9223372036854775807) FROM state)"

    /// The list of conversations without its counts.
    static func conversations(ofLayout layout: Int64) -> [Derived] {
        let isTimed = layout >= Layout.withTimes
        let table = Derived(
            name: "conversation", keys: [.text("name")], entries: "conversation AS i WHERE 1",
            fits: """
                i.last_seq = (SELECT max(m.seq) FROM message AS m INDEXED BY message_conversation
                  WHERE m.indexed = 1 AND m.conversation = i.name)
                AND i.proof = 3 * i.queued + 5 * i.sent + 7 * i.delivered + 11 * i."read" + 13 * i.failed + 17 * i.received
                  + 19 * i.unread + 23 * i.unsent_bytes + 29 * i.last_seq\(isTimed ? newestProof : "")
                AND EXISTS (SELECT 1 FROM conversation AS c INDEXED BY conversation_recent WHERE c.last_seq = i.last_seq AND c.name = i.name)
                \(isTimed ? "AND \(newestFits)" : "")
                """)
        let recent = Derived(
            name: "conversation_recent", isIndex: true, keys: [.number("last_seq"), .text("name")],
            entries: "conversation AS i INDEXED BY conversation_recent WHERE 1",
            fits: "EXISTS (SELECT 1 FROM conversation AS c WHERE c.name = i.name AND c.last_seq = i.last_seq)")
        let time = Derived(
            name: "conversation_time", isIndex: true, keys: [.number("last_time"), .number("time_seq"), .text("name")],
            entries: "conversation AS i INDEXED BY conversation_time WHERE last_time != 0",
            fits: "EXISTS (SELECT 1 FROM conversation AS c WHERE c.name = i.name AND c.last_time = i.last_time AND c.time_seq = i.time_seq)"
        )
        return isTimed ? [table, recent, time] : [table, recent]
    }

    private static let newestProof: SQL = " + 31 * (i.last_time & \(number: TimePlace.proofMask)) + 37 * i.time_seq"

    /// Whether the newest message by time of a conversation `i` is right: it exists, and no other is newer. It is 0 without messages in the
    /// indexes by time.
    private static let newestFits: SQL = """
        (i.last_time != 0) = EXISTS (SELECT 1 FROM message AS m INDEXED BY message_time_in
          WHERE m.indexed = 1 AND m.time_at != 0 AND m.conversation = i.name)
        AND (i.last_time = 0 OR
          EXISTS (SELECT 1 FROM message AS m NOT INDEXED WHERE m.seq = i.time_seq AND m.indexed = 1 AND m.conversation = i.name
            AND iif(m.time_at != 0, m.time_at, m.created_at) = i.last_time)
          AND NOT EXISTS (SELECT 1 FROM message AS m INDEXED BY message_time_in
            WHERE m.indexed = 1 AND m.time_at != 0 AND m.conversation = i.name AND m.status IN (\(StoredStatus.allCases))
              AND m.time_at >= i.last_time AND (m.time_at > i.last_time OR m.seq > i.time_seq))
          AND ifnull((SELECT m.created_at < i.last_time OR m.created_at = i.last_time AND m.seq <= i.time_seq
            FROM message AS m INDEXED BY message_conversation
            WHERE m.indexed = 1 AND m.conversation = i.name AND m.seq < \(timedFrom) AND m.time_at = 0 ORDER BY m.seq DESC LIMIT 1), 1))
        """

    /// An index of `message` with a condition, as in the schema: SQLite uses it only for queries that contain the same terms.
    private static func index(_ name: SQL, _ keys: [Key], of condition: SQL) -> Derived {
        let equal = SQL(keys.map { SQL.equal("m", "i", $0.column) }, " AND ")
        let index: SQL = "message AS i INDEXED BY \(name) WHERE \(condition)"
        return Derived(
            name: name, isIndex: true, keys: keys, entries: index,
            fits: "EXISTS (SELECT 1 FROM message AS m NOT INDEXED WHERE m.seq = i.seq AND \(equal) AND \(condition))",
            lacks: "\(condition) AND NOT EXISTS (SELECT 1 FROM \(index) AND \(equal) AND i.seq = m.seq)")
    }

    /// A table of the index of the history. The entries of messages that were sent may be missing as long as these are in `in_flight`.
    private static func history(_ name: SQL, _ keys: [Key]) -> Derived {
        let equal = SQL(keys.map { SQL.equal("m", "i", $0.column) }, " AND ")
        let condition: SQL = "m.status IN (\(StoredStatus.history)) AND m.seq > ?9 AND m.seq <= ?8"
        return Derived(
            name: name, keys: keys, entries: "\(name) AS i WHERE i.status >= 0",
            fits: "EXISTS (SELECT 1 FROM message AS m NOT INDEXED WHERE m.seq = i.seq AND \(equal) AND \(condition))",
            lacks: """
                \(condition) AND NOT EXISTS (SELECT 1 FROM \(name) AS i WHERE \(equal))
                AND NOT EXISTS (SELECT 1 FROM in_flight AS f WHERE f.seq = m.seq)
                """)
    }

    /// A table whose rows belong to messages. A message without its row is a damaged message.
    private static func ofMessages(_ name: SQL, _ keys: [Key], _ condition: SQL = "1") -> Derived {
        Derived(
            name: name, keys: keys, entries: "\(name) AS i WHERE 1",
            fits: "EXISTS (SELECT 1 FROM message AS m NOT INDEXED WHERE m.seq = i.seq AND \(condition))")
    }

    /// Returns the statement that reads all entries, or those after the one whose columns are its parameters, and whether they are right.
    ///
    /// The latter has a part for each column: for `(a, seq) > (?1, ?2)` SQLite would read all entries with this `a`, because `seq` is the
    /// rowid.
    func sql(isFirst: Bool) -> String {
        let columns = keys.map { "i.\($0.column)" }
        let select = "SELECT \(columns.joined(separator: ", ")), \(fits.text) FROM \(entries?.text ?? "")"
        let parts = columns.indices.reversed().map { place in
            let equal = columns[..<place].enumerated().map { " AND \($1) = ?\($0 + 1)" }.joined()
            return select + equal + " AND \(columns[place]) > ?\(place + 1)"
        }
        let order = (1...max(columns.count, 1)).map { "\($0)" }.joined(separator: ", ")
        return (isFirst ? select : parts.joined(separator: " UNION ALL ")) + " ORDER BY \(order)"
    }
}
