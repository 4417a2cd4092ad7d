/// The limits of the control socket. Sizes are bytes, times are milliseconds.
package struct ControlLimits: Sendable {
    package var clients = 16
    /// At the limit of clients, one that has been idle for this time makes room for another.
    package var idleTime: Int64 = 30_000
    /// How long a line may take from its first byte to its end.
    package var lineTime: Int64 = 30_000
    /// How long a client may read nothing of what is written to it.
    package var answerTime: Int64 = 30_000
    /// While more waits to be read by a client, its requests are not read.
    package var answerRoom = 1 << 20
    /// If more events wait to be read by a client, its subscription ends.
    package var eventRoom = 4 << 20
    /// Drains and jobs of one client that have not ended.
    package var pendingCalls = 64
    /// Long calls at once, each on a thread of its own.
    package var jobs = 2
    /// The bodies in a page end it after this size.
    package var pageBodies = 4 << 20
    /// The shortest time between two summary events.
    package var summaryInterval: Int64 = 20

    package init() {}

    /// The maximal length of a line: a message with the largest body and the largest metadata fits.
    func line(_ options: Options) -> Int {
        Int(clamping: (64 << 10) + (options.limitBody + 2) / 3 * 4 + 6 * options.limitMetadata)
    }
}
