import CMsgQueue
import Glibc
import MsgQueue

/// A host's context pointer and its release function, passed to the thread that calls the host.
struct HostContext: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer?
    let release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?

    var releasing: (@Sendable () -> Void)? {
        guard release != nil else { return nil }
        return { [self] in release?(pointer) }
    }
}

@_cdecl("msgq_set_transport") @implementation
public func msgq_set_transport(
    _ queue: OpaquePointer!, _ transport: msgq_transport_fn!, _ context: UnsafeMutableRawPointer!,
    _ release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> msgq_result {
    let host = HostContext(pointer: context, release: release)
    return status { () throws(QueueError) in
        let engine = try Handles.engine(queue, for: host)
        guard let transport else {
            // No function is set that would use the context, whether or not the call succeeds.
            defer { engine.release(host.releasing) }
            return try engine.setTransport(nil)
        }
        try engine.setTransport(Registration(.single { call(transport, host, $0, $1) }, release: host.releasing))
    }
}

/// Calls a host's C transport.
private func call(_ transport: msgq_transport_fn, _ host: HostContext, _ delivery: Delivery, _ begins: () -> Void) -> Outcome {
    let memory: UnsafeMutableRawPointer
    do throws(QueueError) {
        memory = try Block.make { block in
            let target = block.reserve(msgq_delivery.self)
            let (id, conversation) = (block.string(delivery.id), block.string(delivery.conversation))
            let metadata = block.pairs(delivery.pairs)
            target?.initialize(
                to: msgq_delivery(
                    struct_size: UInt32(MemoryLayout<msgq_delivery>.stride), attempt: delivery.attempt, token: delivery.token, id: id,
                    conversation: conversation, body: nil, body_size: delivery.body.count, metadata: metadata,
                    metadata_count: delivery.pairs.count, created_ms: delivery.createdAt, timeout_ms: delivery.timeout))
        }
    } catch {
        // The transport was not called, so nothing was sent.
        return Outcome(verdict: .offline, text: error.detail)
    }
    defer { free(memory) }
    let struct_ = memory.assumingMemoryBound(to: msgq_delivery.self)
    return delivery.body.withUnsafeBytes { body in
        // An empty body has an address, too; any one will do.
        struct_.pointee.body = body.baseAddress.map { UnsafeRawPointer($0) } ?? UnsafeRawPointer(memory)
        var answer = defaultOutcome
        begins()
        let verdict = transport(host.pointer, struct_, &answer)
        return outcome(verdict, answer)
    }
}

/// Converts the outcome of a transport, which cannot be rejected: an invalid verdict counts as a failure of unknown kind, and an invalid
/// kind as unknown.
func outcome(_ verdict: msgq_verdict, _ answer: msgq_outcome) -> Outcome {
    let number = Int32(exactly: verdict.rawValue)
    guard let known = number.flatMap(Outcome.Verdict.init(rawValue:)) else {
        return .retry(.unknown, text: "the transport returned an invalid verdict: \(shown(verdict.rawValue))")
    }
    return answered(known, Int32(exactly: answer.kind.rawValue).flatMap(FailureKind.init(rawValue:)) ?? .unknown, answer)
}

private func answered(_ verdict: Outcome.Verdict, _ kind: FailureKind, _ answer: msgq_outcome) -> Outcome {
    Outcome(
        verdict: verdict, kind: kind, code: answer.code, text: text(answer, at: \.text),
        retryAfter: answer.retry_after_ms < 0 ? nil : answer.retry_after_ms, retryAfterHeader: text(answer, at: \.retry_after),
        retryAfterIsForQueue: answer.retry_after_queue, isNotSent: answer.not_sent, receipt: receipt(answer))
}

/// The receipt of an outcome. Another number is ignored with a warning, because the outcome of a transport cannot be rejected.
private func receipt(_ answer: msgq_outcome) -> MessageStatus? {
    guard answer.receipt != 0 else { return nil }
    if let status = known(receipt: answer.receipt) { return status }
    Log.warning("ignored the receipt of an outcome: it must be delivered, read or 0, got \(answer.receipt)")
    return nil
}

private func known(receipt number: Int64) -> MessageStatus? {
    Int32(exactly: number).flatMap(MessageStatus.init(rawValue:)).flatMap { StatusRule.isReceipt($0) ? $0 : nil }
}

@_cdecl("msgq_complete") @implementation
public func msgq_complete(_ queue: OpaquePointer!, _ token: UInt64, _ outcome: UnsafePointer<msgq_outcome>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in try engine.complete(token, try read(try require(outcome, "outcome"))) }
}

@_cdecl("msgq_complete_batch") @implementation
public func msgq_complete_batch(
    _ queue: OpaquePointer!, _ tokens: UnsafePointer<UInt64>!, _ outcomes: UnsafePointer<msgq_outcome>!, _ count: Int,
    _ results: UnsafeMutablePointer<msgq_result>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        try check(count: count)
        guard count > 0 else { return }
        let tokens = try require(tokens, "tokens")
        let first = UnsafeRawPointer(try require(outcomes, "outcomes"))
        let stride = try Structs.check(first, msgq_outcome.self, "msgq_outcome")
        var answers: [(token: UInt64, outcome: Outcome)] = []
        answers.reserveCapacity(count)
        for index in 0..<count {
            let place = first + index * stride
            guard place.loadUnaligned(as: UInt32.self) == UInt32(stride) else {
                throw QueueError(.invalid, "struct_size of outcome \(index) differs from that of the first outcome")
            }
            answers.append((tokens[index], try read(place.assumingMemoryBound(to: msgq_outcome.self))))
        }
        let errors = try engine.complete(answers)
        guard let results else { return }
        for (index, error) in errors.enumerated() {
            results[index] = error.map { msgq_result(UInt32(bitPattern: $0.code.rawValue)) } ?? MSGQ_OK
        }
    }
}

/// Reads an outcome that completes an attempt.
private func read(_ pointer: UnsafePointer<msgq_outcome>) throws(QueueError) -> Outcome {
    let answer = try Structs.read(pointer, "msgq_outcome", over: defaultOutcome, flags: [\.retry_after_queue, \.not_sent])
    guard answer.receipt == 0 || known(receipt: answer.receipt) != nil else {
        throw QueueError(.invalid, "receipt must be delivered, read or 0, got \(answer.receipt)")
    }
    return answered(try choice(answer.verdict.rawValue, "verdict"), try choice(answer.kind.rawValue, "failure kind"), answer)
}

@_cdecl("msgq_drain") @implementation
public func msgq_drain(
    _ queue: OpaquePointer!, _ options: UnsafePointer<msgq_drain_options>!, _ out: UnsafeMutablePointer<msgq_report>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        if let out { try Structs.check(out, msgq_report.self, "msgq_report") }
        let given = try read(options)
        let report = try engine.drainAndWait(
            try nameIfGiven(given.conversation, "conversation"), batch: Int(given.batch), timeout: timeout(given.timeout_ms),
            includesFailed: given.include_failed)
        if let out { Structs.write(msgq_report(report), to: out) }
        guard report.stop != .timeout else { throw QueueError(.timeout, "the drain timed out; its report contains what was done") }
    }
}

@_cdecl("msgq_drain_async") @implementation
public func msgq_drain_async(
    _ queue: OpaquePointer!, _ options: UnsafePointer<msgq_drain_options>!, _ done: msgq_drained_fn!, _ context: UnsafeMutableRawPointer!
) -> msgq_result {
    let host = HostContext(pointer: context, release: nil)
    return status(queue) { engine throws(QueueError) in
        let given = try read(options)
        try engine.drain(
            try nameIfGiven(given.conversation, "conversation"), batch: Int(given.batch), timeout: timeout(given.timeout_ms),
            includesFailed: given.include_failed
        ) { result in
            guard let done, case .success(let report) = result else { return }
            var finished = msgq_report(report)
            done(host.pointer, &finished)
        }
    }
}

private func read(_ options: UnsafePointer<msgq_drain_options>?) throws(QueueError) -> msgq_drain_options {
    guard let options else { return defaultDrainOptions }
    return try Structs.read(options, "msgq_drain_options", over: defaultDrainOptions, flags: [\.include_failed])
}

@_cdecl("msgq_retry_all") @implementation
public func msgq_retry_all(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ count: UnsafeMutablePointer<UInt64>!
) -> msgq_result {
    status(queue, count) { engine throws(QueueError) in try engine.retryAll(try nameIfGiven(conversation, "conversation")) }
}

@_cdecl("msgq_retry_all_by") @implementation
public func msgq_retry_all_by(
    _ queue: OpaquePointer!, _ filter: UnsafePointer<msgq_filter>!, _ count: UnsafeMutablePointer<UInt64>!
) -> msgq_result {
    status(queue, count) { engine throws(QueueError) in try engine.retryAll(try readFailed(filter)) }
}

extension msgq_report {
    init(_ report: Report) {
        self.init(
            struct_size: UInt32(MemoryLayout<msgq_report>.stride), stop: msgq_stop(UInt32(bitPattern: report.stop.rawValue)),
            sent: UInt64(clamping: report.sent), failed: UInt64(clamping: report.failed), discarded: UInt64(clamping: report.discarded),
            remaining: UInt64(clamping: report.remaining), remaining_failed: UInt64(clamping: report.remainingFailed),
            put_back: UInt64(clamping: report.putBack))
    }
}
