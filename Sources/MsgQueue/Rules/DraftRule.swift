/// The rules for drafts: names, times, sizes and the limits of the queue.
package enum DraftRule {
    package static let nameCeiling = 255
    private static let longestDuration = 3_653 * Options.day
    package static let priorities: ClosedRange<Int32> = -100...100

    /// Throws if an id is empty, longer than 255 bytes, or contains control characters.
    package static func check(id: String) throws(QueueError) {
        guard !id.isEmpty else { throw QueueError(.invalid, "the id must not be empty") }
        try check(name: id, "id")
    }

    package static func check(conversation: String) throws(QueueError) {
        try check(name: conversation, "conversation")
    }

    static func check(title: String) throws(QueueError) {
        try check(name: title, "title")
    }

    static func check(name: String, _ what: String) throws(QueueError) {
        let size = name.utf8.count
        guard size <= nameCeiling else {
            throw QueueError(.invalid, "the \(what) has \(size) bytes; the limit is \(nameCeiling) bytes")
        }
        for scalar in name.unicodeScalars where scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) {
            throw QueueError(.invalid, "the \(what) contains the control character U+\(hexadecimal(scalar.value))")
        }
    }

    private static func hexadecimal(_ value: UInt32) -> String {
        let digits = String(value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(4 - digits.count, 0)) + digits
    }

    /// The end of the year 9999 in milliseconds since 1970.
    package static let lastTime: Int64 = 253_402_300_799_999

    /// Throws if the time of a message is not in the years 1970 to 9999.
    static func check(time: Int64) throws(QueueError) {
        guard (1...lastTime).contains(time) else {
            throw QueueError(
                .invalid, "the time must be 1 to \(lastTime) (the end of the year 9999) in milliseconds since 1970, got \(time)")
        }
    }

    /// Throws if a draft is invalid or too large. `wall`: the time from which its delay counts.
    package static func check(_ draft: borrowing BorrowedDraft, _ options: Options, wall: Int64 = 0) throws(QueueError) {
        if let id = draft.id { try check(id: id) }
        if !draft.conversation.text.isEmpty { try check(conversation: draft.conversation.text) }
        if let key = draft.replaceKey { try check(name: key, "replace key") }
        try check(bodySize: draft.body.count, options)
        if draft.time != 0 { try check(time: draft.time) }
        try checkTimes(draft, wall: wall)
        guard priorities.contains(draft.priority) else {
            throw QueueError(
                .invalid, "the priority must be \(priorities.lowerBound) to \(priorities.upperBound), got \(draft.priority)")
        }
        if !draft.metadata.isEmpty { try check(metadata: draft.metadata, options) }
    }

    /// Throws if the start or the expiry of a draft is invalid.
    static func checkTimes(_ draft: borrowing BorrowedDraft, wall: Int64) throws(QueueError) {
        try checkNotNegative(draft.notBefore, "not_before_ms")
        try checkNotNegative(draft.expiresAt, "expires_at_ms")
        try check(duration: draft.delay, "delay_ms", inPlaceOf: draft.notBefore, "not_before_ms")
        try check(duration: draft.expiry, "expiry_ms", inPlaceOf: draft.expiresAt, "expires_at_ms")
        let start = draft.delay == 0 ? draft.notBefore : wall.addingClamped(draft.delay)
        guard draft.expiresAt == 0 || draft.expiresAt > start else {
            throw QueueError(.invalid, "the message must expire after its not-before time")
        }
    }

    /// The same for a message that is recorded. Without a sender it is one's own.
    static func check(recorded draft: borrowing BorrowedDraft, _ options: Options) throws(QueueError) {
        try check(draft, options)
        guard let sender = draft.sender else { return }
        guard !sender.isEmpty else { throw QueueError(.invalid, "sender must not be empty") }
        try check(name: sender, "sender")
    }

    private static func checkNotNegative(_ time: Int64, _ name: String) throws(QueueError) {
        guard time >= 0 else {
            throw QueueError(.invalid, "\(name) must not be negative, got \(time)")
        }
    }

    private static func check(duration: Int64, _ name: String, inPlaceOf time: Int64, _ other: String) throws(QueueError) {
        guard (0...longestDuration).contains(duration) else {
            throw QueueError(.invalid, "\(name) must be 0 to \(longestDuration) (10 years), got \(duration)")
        }
        guard duration == 0 || time == 0 else { throw QueueError(.invalid, "\(other) and \(name) must not both be given") }
    }

    package static func check(bodySize: Int, _ options: Options) throws(QueueError) {
        guard Int64(bodySize) <= options.limitBody else {
            throw QueueError(.tooLarge, "the body has \(bodySize) bytes; the limit is \(options.limitBody) bytes")
        }
    }

    static func check(metadata: [(key: String, value: String)], _ options: Options) throws(QueueError) {
        guard metadata.count <= Options.metadataPairs else {
            throw QueueError(.tooLarge, "the message has \(metadata.count) metadata pairs; the limit is \(Options.metadataPairs)")
        }
        var size: Int64 = 0
        var keys = Set<Name>()
        for (key, value) in metadata {
            guard !key.isEmpty else { throw QueueError(.invalid, "a metadata key must not be empty") }
            guard !key.utf8.contains(0), !value.utf8.contains(0) else {
                throw QueueError(.invalid, "metadata must not contain NUL characters")
            }
            guard keys.insert(Name(key)).inserted else { throw QueueError(.invalid, "the metadata contains the key \(key) twice") }
            size += Int64(key.utf8.count) + Int64(value.utf8.count)
        }
        guard size <= options.limitMetadata else {
            throw QueueError(.tooLarge, "the metadata has \(size) bytes; the limit is \(options.limitMetadata) bytes")
        }
    }

    /// Throws `full` if `messages` more messages with `bytes` bytes of bodies would exceed a limit.
    package static func checkRoom(
        for messages: Int64, bytes: Int64, in counts: Counts, _ options: Options
    ) throws(QueueError) {
        if options.limitMessages > 0, messages > 0, counts.unsent + messages > options.limitMessages {
            throw QueueError(.full, "the queue is full: it has \(counts.unsent) unsent messages; the limit is \(options.limitMessages)")
        }
        if options.limitBytes > 0, bytes > 0, counts.unsentBytes + bytes > options.limitBytes {
            throw QueueError(
                .full,
                "the queue is full: it has \(counts.unsentBytes) unsent bytes; \(bytes) more exceed the limit of \(options.limitBytes)")
        }
    }
}
