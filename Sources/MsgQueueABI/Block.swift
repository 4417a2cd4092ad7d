import CMsgQueue
import Glibc
import MsgQueue

/// One block of C memory that holds a struct and everything that it points to. It is measured first, then filled, and freed with one call.
struct Block {
    private(set) var used = 0
    /// nil while measuring.
    let memory: UnsafeMutableRawPointer?

    /// Runs `build` twice, to measure and to fill. Throws if memory is exhausted.
    static func make(_ build: (inout Block) -> Void) throws(QueueError) -> UnsafeMutableRawPointer {
        var measure = Block(memory: nil)
        build(&measure)
        guard let memory = malloc(max(measure.used, 1)) else { throw QueueError(.storage, "failed to allocate \(measure.used) bytes") }
        var fill = Block(memory: memory)
        build(&fill)
        return memory
    }

    /// Reserves room for `count` values; returns nil while measuring.
    mutating func reserve<T>(_ type: T.Type, count: Int = 1) -> UnsafeMutablePointer<T>? {
        let alignment = MemoryLayout<T>.alignment
        used = (used + alignment - 1) / alignment * alignment
        defer { used += count * MemoryLayout<T>.stride }
        return memory.map { ($0 + used).assumingMemoryBound(to: T.self) }
    }

    /// Copies bytes and appends a NUL, so that an empty body has an address, too.
    mutating func bytes(_ source: some Collection<UInt8>) -> UnsafeMutablePointer<UInt8>? {
        let count = source.count
        guard let target = reserve(UInt8.self, count: count + 1) else { return nil }
        _ = UnsafeMutableBufferPointer(start: target, count: count).initialize(from: source)
        target[count] = 0
        return target
    }

    mutating func string(_ text: String) -> UnsafePointer<CChar>? {
        bytes(text.utf8).map { UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self) }
    }

    mutating func pairs(_ pairs: [(key: String, value: String)]) -> UnsafePointer<msgq_pair>? {
        guard !pairs.isEmpty else { return nil }
        let target = reserve(msgq_pair.self, count: pairs.count)
        for (index, pair) in pairs.enumerated() {
            let (key, value) = (string(pair.key), string(pair.value))
            target?[index] = msgq_pair(key: key, value: value)
        }
        return target.map { UnsafePointer($0) }
    }

    mutating func failure(_ failure: Failure?) -> UnsafePointer<msgq_failure>? {
        guard let failure else { return nil }
        let target = reserve(msgq_failure.self)
        let text = string(failure.text)
        target?.initialize(
            to: msgq_failure(
                struct_size: UInt32(MemoryLayout<msgq_failure>.stride), kind: msgq_failure_kind(UInt32(bitPattern: failure.kind.rawValue)),
                code: failure.code, retryable: failure.retryable, attempts: failure.attempts, at_ms: failure.at, text: text))
        return target.map { UnsafePointer($0) }
    }

    /// Fills `target`, which is in this block.
    mutating func message(_ message: Message, at target: UnsafeMutablePointer<msgq_message>?) {
        let id = string(message.id)
        let conversation = string(message.conversation)
        let sender = message.sender.flatMap { string($0) }
        let body = message.body.flatMap { bytes($0) }
        let preview = string(message.preview)
        let metadata = pairs(message.pairs)
        let (failure, failureBefore) = (failure(message.failure), failure(message.failureBefore))
        let explanation = message.explanation.flatMap { copied($0) }
        target?.initialize(
            to: msgq_message(
                struct_size: UInt32(MemoryLayout<msgq_message>.stride),
                status: msgq_status(UInt32(bitPattern: message.status.rawValue)), id: id, conversation: conversation, sender: sender,
                body: body.map { UnsafeRawPointer($0) }, body_size: message.bodySize, preview: preview, metadata: metadata,
                metadata_count: message.pairs.count, sequence: UInt64(bitPattern: message.sequence), created_ms: message.createdAt,
                edited_ms: message.editedAt, sent_ms: message.sentAt, delivered_ms: message.deliveredAt, read_ms: message.readAt,
                not_before_ms: message.notBefore, expires_at_ms: message.expiresAt, next_attempt_ms: message.nextAttemptAt,
                last_attempt_ms: message.lastAttemptAt, attempts: message.attempts, retries_used: message.retriesUsed,
                unmetered_only: message.unmeteredOnly, failure: failure, priority: message.priority,
                time_ms: message.time, failure_before: failureBefore, explanation: explanation))
    }

    private mutating func copied(_ explanation: Explanation) -> UnsafePointer<msgq_explanation>? {
        let target = reserve(msgq_explanation.self)
        target?.initialize(to: msgq_explanation(explanation))
        return target.map { UnsafePointer($0) }
    }
}

/// The header of an array's block. The mark distinguishes a list from other memory and from a freed list.
struct ArrayHeader {
    var mark: UInt64
    var count: Int

    /// Returns the header if the pointer points to one with this mark.
    static func at(_ pointer: OpaquePointer?, _ mark: UInt64) -> UnsafeMutablePointer<ArrayHeader>? {
        guard let pointer else { return nil }
        let header = UnsafeMutablePointer<ArrayHeader>(pointer)
        return header.pointee.mark == mark ? header : nil
    }

    /// Returns element `index`, which follows the header.
    static func element<T>(_ pointer: OpaquePointer?, _ mark: UInt64, _ index: Int, _ type: T.Type) -> UnsafePointer<T>? {
        guard let header = at(pointer, mark), index >= 0, index < header.pointee.count else { return nil }
        return (UnsafeRawPointer(header) + MemoryLayout<ArrayHeader>.stride).assumingMemoryBound(to: T.self) + index
    }

    static func release(_ pointer: OpaquePointer?, _ mark: UInt64) {
        guard let header = at(pointer, mark) else { return }
        header.pointee.mark = 0
        free(header)
    }
}
