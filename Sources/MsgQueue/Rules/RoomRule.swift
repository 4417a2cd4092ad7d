/// Decides whether new messages fit into the limits of the queue, and what must be dropped for them.
package enum RoomRule {
    /// An amount of messages, of bytes of their bodies, and of bytes of the store's files.
    package struct Room: Equatable, Sendable {
        package var messages: Int64 = 0
        package var bytes: Int64 = 0
        package var file: Int64 = 0

        /// Whether nothing of it is left to be freed.
        package var isFreed: Bool { messages <= 0 && bytes <= 0 && file <= 0 }

        /// Whether dropped messages have freed what their number and their bodies free.
        package var isDropped: Bool { messages <= 0 && bytes <= 0 }

        /// Subtracts a dropped message.
        package mutating func drop(bytes size: Int64) {
            messages -= 1
            bytes -= size
        }
    }

    package enum Decision: Equatable, Sendable {
        case fits
        /// The oldest queued messages must be dropped until so much is freed.
        case drop(Room)
    }

    /// Throws `full` if the messages do not fit. `counts`: of the store, in which messages being sent count as queued; `held`: how many of
    /// these must not be dropped. `file`: the bytes of the store's files.
    package static func decide(
        _ need: Room, in counts: Counts, held: Int64, file: Int64, _ options: Options
    ) throws(QueueError) -> Decision {
        let excess = excess(need, in: counts, file: file, options)
        if excess.isFreed { return .fits }
        // Dropping makes no room that is more than the limit, nor that of messages which stay.
        let mayFit =
            options.onFull == .dropOldest && excess.messages <= counts.queued &- held
            && (options.limitBytes == 0 || need.bytes <= options.limitBytes)
            && (options.limitFileBytes == 0 || need.file <= options.limitFileBytes)
        guard mayFit else { throw full(need, in: counts, file: file, options) }
        return .drop(excess)
    }

    /// Returns by how much the messages exceed the limits.
    private static func excess(_ need: Room, in counts: Counts, file: Int64, _ options: Options) -> Room {
        var excess = Room()
        if options.limitMessages > 0, need.messages > 0 { excess.messages = max(0, counts.unsent + need.messages - options.limitMessages) }
        if options.limitBytes > 0, need.bytes > 0 { excess.bytes = max(0, counts.unsentBytes + need.bytes - options.limitBytes) }
        if options.limitFileBytes > 0, need.file > 0 { excess.file = max(0, file + need.file - options.limitFileBytes) }
        return excess
    }

    /// Returns the error of an enqueue that does not fit.
    package static func full(_ need: Room, in counts: Counts, file: Int64, _ options: Options) -> QueueError {
        do throws(QueueError) { try DraftRule.checkRoom(for: need.messages, bytes: need.bytes, in: counts, options) } catch { return error }
        return QueueError(
            .full,
            "the queue is full: its files, with what its messages will still need, have \(file) bytes; about \(need.file) more exceed the limit "
                + "of \(options.limitFileBytes)")
    }

    /// Returns the failure of a dropped message.
    package static func failure(of row: Row, at now: Int64) -> Failure {
        Failure(
            kind: .dropped, code: 0, text: "dropped to make room for a newer message", at: now, retryable: false,
            attempts: row.progress.attempts)
    }
}
