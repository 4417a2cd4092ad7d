import CMsgQueue
import Glibc
import MsgQueue

@_cdecl("msgq_set_event_handler") @implementation
public func msgq_set_event_handler(
    _ queue: OpaquePointer!, _ handler: msgq_event_fn!, _ context: UnsafeMutableRawPointer!,
    _ release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> msgq_result {
    let host = HostContext(pointer: context, release: release)
    return status { () throws(QueueError) in
        let engine = try Handles.engine(queue, for: host)
        guard let handler else {
            defer { engine.release(host.releasing) }
            return try engine.setHandler(nil)
        }
        try engine.setHandler(Registration({ deliver($0, at: $1, handler, host) }, release: host.releasing))
    }
}

/// Delivers one event to a host's C handler.
private func deliver(_ event: Event, at: Int64, _ handler: msgq_event_fn, _ host: HostContext) {
    do throws(QueueError) {
        let memory = try Block.make { block in
            let target = block.reserve(msgq_event.self)
            var built = block.event(event)
            built.at_ms = at
            target?.initialize(to: built)
        }
        defer { free(memory) }
        handler(host.pointer, memory.assumingMemoryBound(to: msgq_event.self))
    } catch {
        Log.error("failed to deliver an event: \(error.detail)")
    }
}

extension Block {
    /// Converts an event to C; what it points to is in this block.
    fileprivate mutating func event(_ event: Event) -> msgq_event {
        var result = msgq_event()
        result.struct_size = UInt32(MemoryLayout<msgq_event>.stride)
        result.from = MSGQ_STATUS_NONE
        switch event {
        case .status(let change):
            result.kind = MSGQ_EVENT_STATUS
            result.id = string(change.id)
            result.conversation = string(change.conversation)
            result.from = change.from?.rawValue ?? MSGQ_STATUS_NONE
            result.to = change.to.rawValue
            result.attempt = change.attempt
            result.failure = failure(change.failure)
        case .summary(let counts, let network):
            result.kind = MSGQ_EVENT_SUMMARY
            result.counts = self.counts(counts)
            result.set(network)
        case .connectivity(let network):
            result.kind = MSGQ_EVENT_CONNECTIVITY
            result.set(network)
            if !network.offlineReason.isEmpty { result.text = string(network.offlineReason) }
        case .prompt(let prompt):
            result.kind = MSGQ_EVENT_PROMPT
            result.prompt = self.prompt(prompt)
        case .promptWithdrawn: result.kind = MSGQ_EVENT_PROMPT_WITHDRAWN
        case .collect: result.kind = MSGQ_EVENT_COLLECT
        case .promptChanged(let prompt):
            result.kind = MSGQ_EVENT_PROMPT_CHANGED
            result.prompt = self.prompt(prompt)
        case .drainStarted(let counts):
            result.kind = MSGQ_EVENT_DRAIN_STARTED
            result.counts = self.counts(counts)
        case .drainProgress(let report):
            result.kind = MSGQ_EVENT_DRAIN_PROGRESS
            result.report = self.report(report)
        case .drainFinished(let report):
            result.kind = MSGQ_EVENT_DRAIN_FINISHED
            result.report = self.report(report)
        case .paused(let conversation, let isPaused, let kind):
            result.kind = MSGQ_EVENT_PAUSED
            result.conversation = conversation.flatMap { string($0) }
            result.paused = isPaused
            result.failure_kind = msgq_failure_kind(UInt32(bitPattern: kind.rawValue))
        case .discarded(let id, let conversation, let failure):
            result.kind = MSGQ_EVENT_DISCARDED
            result.id = string(id)
            result.conversation = string(conversation)
            result.failure = self.failure(failure)
        case .deleted(let id, let conversation):
            result.kind = MSGQ_EVENT_DELETED
            result.id = string(id)
            result.conversation = string(conversation)
        case .cleared(let conversation):
            result.kind = MSGQ_EVENT_DELETED
            result.conversation = conversation.flatMap { string($0) }
        case .storage(let error):
            result.kind = MSGQ_EVENT_STORAGE
            result.result = error.map { msgq_result(UInt32(bitPattern: $0.code.rawValue)) } ?? MSGQ_OK
            result.text = string(error?.detail ?? "the store accepts writes again")
        case .resync(let lost):
            result.kind = MSGQ_EVENT_RESYNC
            result.lost_events = UInt64(clamping: lost)
        case .replaced(let id, let new, let conversation):
            result.kind = MSGQ_EVENT_REPLACED
            result.id = string(id)
            result.conversation = string(conversation)
            result.text = string(new)
        case .edited(let id, let conversation):
            result.kind = MSGQ_EVENT_EDITED
            result.id = string(id)
            result.conversation = string(conversation)
        }
        return result
    }

    mutating func counts(_ counts: Counts) -> UnsafePointer<msgq_counts>? {
        let target = reserve(msgq_counts.self)
        target?.initialize(to: msgq_counts(counts))
        return target.map { UnsafePointer($0) }
    }

    private mutating func report(_ report: Report) -> UnsafePointer<msgq_report>? {
        let target = reserve(msgq_report.self)
        target?.initialize(to: msgq_report(report))
        return target.map { UnsafePointer($0) }
    }

    private mutating func prompt(_ prompt: Prompt) -> UnsafePointer<msgq_prompt>? {
        let target = reserve(msgq_prompt.self)
        let text = string(Words.prompt(prompt.messages, failed: prompt.failed))
        target?.initialize(
            to: msgq_prompt(
                struct_size: UInt32(MemoryLayout<msgq_prompt>.stride), timeout_ms: UInt32(clamping: prompt.timeout),
                messages: UInt64(clamping: prompt.messages), bytes: UInt64(clamping: prompt.bytes), oldest_ms: prompt.oldestAt,
                conversations: UInt64(clamping: prompt.conversations), text: text, failed: UInt64(clamping: prompt.failed)))
        return target.map { UnsafePointer($0) }
    }
}

extension msgq_event {
    fileprivate mutating func set(_ network: Network) {
        connectivity = msgq_connectivity(UInt32(bitPattern: network.connectivity.rawValue))
        link = msgq_link(UInt32(bitPattern: network.link.rawValue))
        metered = network.metered
    }
}

@_cdecl("msgq_poll") @implementation
public func msgq_poll(_ queue: OpaquePointer!, _ timeout_ms: Int64, _ ran: UnsafeMutablePointer<Int>!) -> msgq_result {
    status { () throws(QueueError) in
        let count = try Handles.engine(queue).runCallbacks(timeout: timeout(timeout_ms))
        ran?.pointee = count
    }
}

@_cdecl("msgq_fd") @implementation
public func msgq_fd(_ queue: OpaquePointer!) -> Int32 {
    var descriptor: Int32 = -1
    _ = status { () throws(QueueError) in descriptor = try Handles.engine(queue).pollDescriptor() }
    return descriptor
}
