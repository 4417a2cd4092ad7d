import CMsgQueue
import Glibc
import MsgQueue

// MARK: Inserting

@_cdecl("msgq_enqueue") @implementation
public func msgq_enqueue(
    _ queue: OpaquePointer!, _ draft: UnsafePointer<msgq_draft>!, _ id_out: UnsafeMutablePointer<CChar>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let draft = try read(try require(draft, "draft"))
        try write(try engine.enqueue(DraftBatch(draft)), to: id_out.map { UnsafeMutableRawPointer($0) })
    }
}

/// Swift cannot express the type of `ids_out`, a pointer to arrays, so the compiler does not compare this function with the header. The C
/// test program, which includes both, does.
@_cdecl("msgq_enqueue_batch")
public func enqueueBatch(
    _ queue: OpaquePointer!, _ drafts: UnsafePointer<msgq_draft>!, _ count: Int, _ ids_out: UnsafeMutableRawPointer!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        try check(count: count)
        guard count > 0 else { return }
        try write(try engine.enqueue(try batch(drafts, count) { _, draft throws(QueueError) in try read(draft) }), to: ids_out)
    }
}

/// Returns the drafts of a caller's array, which has at least one.
func batch(
    _ drafts: UnsafePointer<msgq_draft>?, _ count: Int,
    _ read: @escaping (Int, UnsafePointer<msgq_draft>) throws(QueueError) -> BorrowedDraft
) throws(QueueError) -> DraftBatch {
    let place = try places(drafts)
    return DraftBatch(count: count) { range throws(QueueError) in
        var drafts: [BorrowedDraft] = []
        drafts.reserveCapacity(range.count)
        for index in range {
            let pointer = try place(index)
            do throws(QueueError) { drafts.append(try read(index, pointer)) } catch { throw error.ofDraft(index, of: count) }
        }
        return drafts
    }
}

/// Returns a function that returns the drafts of a caller's array, which has at least one.
func places(
    _ drafts: UnsafePointer<msgq_draft>?
) throws(QueueError) -> (Int) throws(QueueError) -> UnsafePointer<msgq_draft> {
    let first = UnsafeRawPointer(try require(drafts, "drafts"))
    let stride = try Structs.check(first, msgq_draft.self, "msgq_draft", minimum: draftMinimum)
    return { index throws(QueueError) in
        let place = first + index * stride
        guard place.loadUnaligned(as: UInt32.self) == UInt32(stride) else {
            throw QueueError(.invalid, "struct_size of draft \(index) differs from that of the first draft")
        }
        return place.assumingMemoryBound(to: msgq_draft.self)
    }
}

/// As `msgq_enqueue_batch` not compared with the header by the compiler.
@_cdecl("msgq_enqueue_bodies")
public func enqueueBodies(
    _ queue: OpaquePointer!, _ draft: UnsafePointer<msgq_draft>!, _ bodies: UnsafeRawPointer!, _ bodies_size: Int,
    _ sizes: UnsafePointer<Int>!, _ count: Int, _ ids_out: UnsafeMutableRawPointer!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        try check(count: count)
        let common = try read(try require(draft, "draft"))
        guard common.body.isEmpty else { throw QueueError(.invalid, "the draft of several bodies must have no body of its own") }
        guard bodies_size >= 0 else { throw QueueError(.invalid, "bodies_size is too large: \(UInt(bitPattern: bodies_size))") }
        let joined = UnsafeRawBufferPointer(start: bodies_size > 0 ? try require(bodies, "bodies") : nil, count: bodies_size)
        let given = UnsafeBufferPointer(start: count > 0 ? try require(sizes, "sizes") : nil, count: count)
        try write(try engine.enqueue(joined, sizes: given, like: common), to: ids_out)
    }
}

private func write(_ batch: StoredBatch, to ids_out: UnsafeMutableRawPointer?) throws(QueueError) {
    guard let ids_out else { return }
    try batch.forEachID { index, id in
        write(id, to: (ids_out + index * Int(MSGQ_ID_SIZE)).assumingMemoryBound(to: CChar.self))
    }
}

/// Checks the number of elements of a caller's array, which in C has no sign.
func check(count: Int, most: Int = 1_000_000) throws(QueueError) {
    guard (0...most).contains(count) else {
        throw QueueError(.invalid, "count must be 0 to \(most), got \(UInt(bitPattern: count))")
    }
}

/// The size of the smallest draft: up to and including its body.
private let draftMinimum = MemoryLayout<msgq_draft>.offset(of: \.metadata)

/// `isSent`: false for a message that is recorded, of which the fields about sending have no meaning: they are not read.
func read(_ pointer: UnsafePointer<msgq_draft>, isSent: Bool = true) throws(QueueError) -> BorrowedDraft {
    let given = try readFields(pointer)
    var draft = BorrowedDraft(
        id: try nameIfGiven(given.id, "id"),
        conversation: Name(try nameIfGiven(given.conversation, "conversation") ?? ""),
        body: try bytes(given.body, given.body_size), metadata: try metadata(of: given), notBefore: isSent ? given.not_before_ms : 0,
        expiresAt: isSent ? given.expires_at_ms : 0, unmeteredOnly: isSent && given.unmetered_only,
        replaceKey: try nameIfGiven(isSent ? given.replace_key : nil, "replace_key"),
        priority: isSent ? given.priority : 0, time: given.time_ms)
    if isSent { (draft.delay, draft.expiry) = (given.delay_ms, given.expiry_ms) }
    return draft
}

func readFields(_ pointer: UnsafePointer<msgq_draft>) throws(QueueError) -> msgq_draft {
    try Structs.read(pointer, "msgq_draft", over: defaultDraft, minimum: draftMinimum, flags: [\.unmetered_only])
}

func metadata(of given: msgq_draft) throws(QueueError) -> [(key: String, value: String)] {
    guard (0...Options.metadataPairs).contains(given.metadata_count) else {
        throw QueueError(
            .tooLarge, "metadata_count must be at most \(Options.metadataPairs), got \(UInt(bitPattern: given.metadata_count))")
    }
    var metadata: [(key: String, value: String)] = []
    if given.metadata_count > 0 {
        let pairs = try require(given.metadata, "metadata")
        metadata.reserveCapacity(given.metadata_count)
        for pair in UnsafeBufferPointer(start: pairs, count: given.metadata_count) {
            metadata.append(
                (
                    try text(try require(pair.key, "metadata key"), "metadata key"),
                    try text(try require(pair.value, "metadata value"), "metadata value")
                ))
        }
    }
    return metadata
}

func bytes(_ body: UnsafeRawPointer?, _ size: Int) throws(QueueError) -> UnsafeRawBufferPointer {
    guard size >= 0 else { throw QueueError(.tooLarge, "body_size must be at most \(Int.max), got \(UInt(bitPattern: size))") }
    guard size > 0 else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(start: try require(body, "body"), count: size)
}

func write(_ id: String, to out: UnsafeMutablePointer<CChar>) {
    // An id has at most 255 bytes, so it fits.
    id.withCString { _ = memcpy(out, $0, min(id.utf8.count + 1, Int(MSGQ_ID_SIZE))) }
}

// MARK: One message

/// Runs a call about one message.
func status(
    _ queue: OpaquePointer?, _ id: UnsafePointer<CChar>?, _ body: (Engine, String) throws(QueueError) -> Void
) -> msgq_result {
    status(queue) { engine throws(QueueError) in try body(engine, try name(try require(id, "id"), "id")) }
}

@_cdecl("msgq_get") @implementation
public func msgq_get(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<UnsafeMutablePointer<msgq_message>?>!
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in
        let out = try require(out, "out")
        let message = try engine.message(id: id)
        let memory = try Block.make { block in
            let target = block.reserve(msgq_message.self)
            block.message(message, at: target)
        }
        out.pointee = memory.assumingMemoryBound(to: msgq_message.self)
    }
}

@_cdecl("msgq_message_free") @implementation
public func msgq_message_free(_ message: UnsafeMutablePointer<msgq_message>!) { free(message) }

@_cdecl("msgq_delete") @implementation
public func msgq_delete(_ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in try engine.delete(id) }
}

@_cdecl("msgq_retry") @implementation
public func msgq_retry(_ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in try engine.retry(id) }
}

@_cdecl("msgq_send_now") @implementation
public func msgq_send_now(_ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in try engine.sendNow(id) }
}

@_cdecl("msgq_mark") @implementation
public func msgq_mark(_ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ status: msgq_status) -> msgq_result {
    MsgQueueABI.status(queue, id) { engine, id throws(QueueError) in try engine.mark(id, as: try choice(status.rawValue, "status")) }
}

// MARK: Many messages

private let listMark: UInt64 = 0x6d73_6771_6c69_7374

@_cdecl("msgq_list") @implementation
public func msgq_list(
    _ queue: OpaquePointer!, _ filter: UnsafePointer<msgq_filter>!, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        let page = try engine.list(try filter.map { pointer throws(QueueError) in try read(pointer) } ?? Filter())
        let memory = try Block.make { block in
            block.reserve(ArrayHeader.self)?.initialize(to: ArrayHeader(mark: listMark, count: page.count))
            let messages = block.reserve(msgq_message.self, count: page.count)
            for (index, message) in page.enumerated() { block.message(message, at: messages.map { $0 + index }) }
        }
        out.pointee = OpaquePointer(memory)
    }
}

private func read(_ pointer: UnsafePointer<msgq_filter>) throws(QueueError) -> Filter {
    let given = try Structs.read(pointer, "msgq_filter", over: defaultFilter, flags: [\.newest_first, \.without_bodies, \.with_reasons])
    // No sequence is larger than an Int64.
    let after = Int64(clamping: given.after)
    guard let order = ListOrder(rawValue: Int32(bitPattern: given.order.rawValue)) else {
        throw QueueError(.invalid, "invalid order: \(Int32(bitPattern: given.order.rawValue))")
    }
    var filter = Filter(
        conversation: try nameIfGiven(given.conversation, "conversation"),
        statuses: given.statuses == 0 ? .unsent : StatusSet(rawValue: given.statuses), after: after,
        limit: given.limit == 0 ? 50 : Int(given.limit), newestFirst: given.newest_first, withoutBodies: given.without_bodies,
        order: order, afterTime: given.after_time_ms, withReasons: given.with_reasons)
    filter.failureKind = try choice(given.failure_kind.rawValue, "failure_kind")
    filter.failureCode = given.failure_code?.pointee
    if let reason = given.waiting_for { filter.waitingFor = try choice(reason.pointee.rawValue, "waiting_for") }
    return filter
}

/// Reads the filter of a call for failed messages; NULL: all.
func readFailed(_ pointer: UnsafePointer<msgq_filter>?) throws(QueueError) -> Filter {
    guard let pointer else { return .failed(nil) }
    return try FilterRule.allFailed(of: try read(pointer))
}

@_cdecl("msgq_list_size") @implementation
public func msgq_list_size(_ list: OpaquePointer!) -> Int { ArrayHeader.at(list, listMark)?.pointee.count ?? 0 }

@_cdecl("msgq_list_at") @implementation
public func msgq_list_at(_ list: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_message>! {
    ArrayHeader.element(list, listMark, index, msgq_message.self)
}

@_cdecl("msgq_list_free") @implementation
public func msgq_list_free(_ list: OpaquePointer!) { ArrayHeader.release(list, listMark) }

@_cdecl("msgq_count") @implementation
public func msgq_count(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<msgq_counts>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        try Structs.check(out, msgq_counts.self, "msgq_counts")
        let counts = try engine.counts(try nameIfGiven(conversation, "conversation"))
        Structs.write(msgq_counts(counts), to: out)
    }
}

extension msgq_counts {
    init(_ counts: Counts) {
        func number(_ value: Int64) -> UInt64 { UInt64(clamping: value) }
        self.init(
            struct_size: UInt32(MemoryLayout<msgq_counts>.stride), queued: number(counts.queued), sending: number(counts.sending),
            sent: number(counts.sent), delivered: number(counts.delivered), read: number(counts.read), failed: number(counts.failed),
            received: number(counts.received), unread: number(counts.unread), unsent_bytes: number(counts.unsentBytes))
    }
}

@_cdecl("msgq_clear") @implementation
public func msgq_clear(_ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in try engine.clear(try nameIfGiven(conversation, "conversation")) }
}

@_cdecl("msgq_delete_conversation") @implementation
public func msgq_delete_conversation(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ count: UnsafeMutablePointer<UInt64>!
) -> msgq_result {
    status(queue, count) { engine throws(QueueError) in
        try engine.deleteConversation(try name(try require(conversation, "conversation"), "conversation"))
    }
}

@_cdecl("msgq_clear_failed") @implementation
public func msgq_clear_failed(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ count: UnsafeMutablePointer<UInt64>!
) -> msgq_result {
    status(queue, count) { engine throws(QueueError) in try engine.clearFailed(try nameIfGiven(conversation, "conversation")) }
}

@_cdecl("msgq_clear_failed_by") @implementation
public func msgq_clear_failed_by(
    _ queue: OpaquePointer!, _ filter: UnsafePointer<msgq_filter>!, _ count: UnsafeMutablePointer<UInt64>!
) -> msgq_result {
    status(queue, count) { engine throws(QueueError) in try engine.clearFailed(try readFailed(filter)) }
}

@_cdecl("msgq_backup") @implementation
public func msgq_backup(_ queue: OpaquePointer!, _ path: UnsafePointer<CChar>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in try LongReads(engine).backup(to: try text(try require(path, "path"), "path")) }
}

// MARK: Attempts

private let ledgerMark: UInt64 = 0x6d73_6771_6c65_6467

@_cdecl("msgq_attempts") @implementation
public func msgq_attempts(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in
        let out = try require(out, "out")
        let lines = try engine.attempts(id)
        let memory = try Block.make { block in
            block.reserve(ArrayHeader.self)?.initialize(to: ArrayHeader(mark: ledgerMark, count: lines.count))
            let attempts = block.reserve(msgq_attempt.self, count: lines.count)
            for (index, line) in lines.enumerated() {
                let text = block.string(line.text)
                attempts?[index] = msgq_attempt(
                    struct_size: UInt32(MemoryLayout<msgq_attempt>.stride), number: line.number, started_ms: line.startedAt,
                    duration_ms: line.duration ?? -1, outcome: msgq_attempt_outcome(UInt32(bitPattern: line.result.rawValue)),
                    kind: msgq_failure_kind(UInt32(bitPattern: line.kind.rawValue)), code: line.code,
                    arrival: msgq_arrival(UInt32(bitPattern: line.arrival.rawValue)), text: text)
            }
        }
        out.pointee = OpaquePointer(memory)
    }
}

@_cdecl("msgq_attempts_size") @implementation
public func msgq_attempts_size(_ attempts: OpaquePointer!) -> Int { ArrayHeader.at(attempts, ledgerMark)?.pointee.count ?? 0 }

@_cdecl("msgq_attempts_at") @implementation
public func msgq_attempts_at(_ attempts: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_attempt>! {
    ArrayHeader.element(attempts, ledgerMark, index, msgq_attempt.self)
}

@_cdecl("msgq_attempts_free") @implementation
public func msgq_attempts_free(_ attempts: OpaquePointer!) { ArrayHeader.release(attempts, ledgerMark) }

@_cdecl("msgq_ledger_size") @implementation
public func msgq_ledger_size(_ ledger: OpaquePointer!) -> Int { msgq_attempts_size(ledger) }

@_cdecl("msgq_ledger_at") @implementation
public func msgq_ledger_at(_ ledger: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_attempt>! { msgq_attempts_at(ledger, index) }

@_cdecl("msgq_ledger_free") @implementation
public func msgq_ledger_free(_ ledger: OpaquePointer!) { msgq_attempts_free(ledger) }
