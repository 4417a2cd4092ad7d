/// How many messages of the history are kept, by the option `keepSent`.
enum RetentionRule {
    /// So many messages in excess of the limit are removed at once; fewer if few are kept.
    private static let batch: Int64 = 64

    /// Whether a message enters the history when it is sent. With the limit 0 it is removed at once.
    static func keepsSent(_ limit: Int64?) -> Bool { limit != 0 }

    /// Whether messages in excess of the limit are removed now. The history never has many more than the limit.
    static func isExcessive(_ count: Int64, limit: Int64) -> Bool { count.subtractingClamped(limit) > min(batch, limit / 16) }
}
