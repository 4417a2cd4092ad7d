/// How many messages of the history are kept, by the options `keepSent` and `keepSentFor`.
enum RetentionRule {
    /// Messages are removed when so many are in excess of the limit, or earlier if few are kept, so that many of each conversation are removed
    /// together.
    private static let batch: Int64 = 512

    /// Returns the options that take effect. Messages that are kept for no time are not kept, whatever the clock shows.
    static func effective(_ given: Options) -> Options {
        guard given.keepSentFor == 0 else { return given }
        var options = given
        (options.keepSent, options.keepSentFor) = (0, nil)
        return options
    }

    /// Whether a message enters the history when it is sent. With the limit 0 it is removed at once.
    static func keepsSent(_ limit: Int64?) -> Bool { limit != 0 }

    /// Whether messages in excess of the limit are removed soon, beside the attempts.
    static func isExcessive(_ count: Int64, limit: Int64) -> Bool { count.subtractingClamped(limit) > min(batch, limit / 16) }

    /// Whether they are removed with the outcomes of attempts. The history never has many more than the limit.
    static func isFull(_ count: Int64, limit: Int64) -> Bool { count.subtractingClamped(limit) > min(batch, limit / 16) * 3 / 2 }

    /// The most messages that are removed with the outcomes of attempts: more than these add, so that the excess becomes smaller.
    static func removals(outcomes: Int, step: Int) -> Int { outcomes + step }
}
