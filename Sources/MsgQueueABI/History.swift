import CMsgQueue
import Glibc
import MsgQueue

@_cdecl("msgq_record") @implementation
public func msgq_record(
    _ queue: OpaquePointer!, _ draft: UnsafePointer<msgq_draft>!, _ sender: UnsafePointer<CChar>!, _ id_out: UnsafeMutablePointer<CChar>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let draft = try read(try require(draft, "draft"), isSent: false)
        let id = try engine.record(draft, sender: try name(try require(sender, "sender"), "sender"))
        if let id_out { write(id, to: id_out) }
    }
}

private let conversationsMark: UInt64 = 0x6d73_6771_636f_6e76

@_cdecl("msgq_conversations") @implementation
public func msgq_conversations(
    _ queue: OpaquePointer!, _ before: UInt64, _ limit: UInt32, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        // No sequence is larger than an Int64.
        try write(try engine.conversations(before: Int64(clamping: before), limit: limit == 0 ? 50 : Int(limit)), to: out)
    }
}

@_cdecl("msgq_conversations_by_time") @implementation
public func msgq_conversations_by_time(
    _ queue: OpaquePointer!, _ before_time_ms: Int64, _ before: UInt64, _ limit: UInt32, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        let place = before_time_ms == 0 && before == 0 ? nil : TimePlace(before_time_ms, Int64(clamping: before))
        try write(try engine.conversationsByTime(before: place, limit: limit == 0 ? 50 : Int(limit)), to: out)
    }
}

@_cdecl("msgq_get_conversation") @implementation
public func msgq_get_conversation(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let name = try name(try require(conversation, "conversation"), "conversation")
        let out = try require(out, "out")
        try write([try engine.conversation(name)], to: out)
    }
}

private func write(_ page: [Conversation], to out: UnsafeMutablePointer<OpaquePointer?>) throws(QueueError) {
    let memory = try Block.make { block in
        block.reserve(ArrayHeader.self)?.initialize(to: ArrayHeader(mark: conversationsMark, count: page.count))
        let target = block.reserve(msgq_conversation.self, count: page.count)
        for (index, conversation) in page.enumerated() {
            let name = block.string(conversation.name)
            let counts = block.counts(conversation.counts)
            let last = block.reserve(msgq_message.self)
            block.message(conversation.last, at: last)
            let title = conversation.title.flatMap { block.string($0) }
            target?[index] = msgq_conversation(
                struct_size: UInt32(MemoryLayout<msgq_conversation>.stride), name: name, counts: counts,
                last: last.map { UnsafePointer($0) }, title: title, paused: conversation.isPaused)
        }
    }
    out.pointee = OpaquePointer(memory)
}

@_cdecl("msgq_set_title") @implementation
public func msgq_set_title(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ title: UnsafePointer<CChar>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let conversation = try name(try require(conversation, "conversation"), "conversation")
        try engine.setTitle(try nameIfGiven(title, "title") ?? "", of: conversation)
    }
}

@_cdecl("msgq_conversations_size") @implementation
public func msgq_conversations_size(_ page: OpaquePointer!) -> Int { ArrayHeader.at(page, conversationsMark)?.pointee.count ?? 0 }

@_cdecl("msgq_conversations_at") @implementation
public func msgq_conversations_at(_ page: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_conversation>! {
    ArrayHeader.element(page, conversationsMark, index, msgq_conversation.self)
}

@_cdecl("msgq_conversations_free") @implementation
public func msgq_conversations_free(_ page: OpaquePointer!) { ArrayHeader.release(page, conversationsMark) }

// MARK: Explanations

@_cdecl("msgq_explain") @implementation
public func msgq_explain(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<msgq_explanation>!
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in
        let out = try require(out, "out")
        try Structs.check(out, msgq_explanation.self, "msgq_explanation")
        Structs.write(msgq_explanation(try engine.explain(id)), to: out)
    }
}

extension msgq_explanation {
    init(_ explanation: Explanation) {
        self.init()
        struct_size = UInt32(MemoryLayout<msgq_explanation>.stride)
        reason = msgq_reason(UInt32(bitPattern: explanation.reason.rawValue))
        until_ms = explanation.until
        copy(explanation.behind ?? "", to: &behind)
        copy(explanation.text, to: &text)
        retries = explanation.retries
    }
}

/// Copies a text into a char array, truncated between two characters if necessary.
func copy<Field>(_ text: String, to field: inout Field) {
    withUnsafeMutableBytes(of: &field) { bytes in
        var room = bytes.count - 1
        var offset = 0
        for character in text.unicodeScalars {
            let units = Array(String(character).utf8)
            guard units.count <= room else { break }
            for unit in units {
                bytes[offset] = unit
                offset += 1
            }
            room -= units.count
        }
        bytes[offset] = 0
    }
}

// MARK: Statistics

@_cdecl("msgq_stats") @implementation
public func msgq_stats(_ queue: OpaquePointer!, _ out: UnsafeMutablePointer<msgq_statistics>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        try Structs.check(out, msgq_statistics.self, "msgq_statistics")
        let (statistics, _) = try engine.statistics()
        var result = msgq_statistics()
        result.sent_per_minute = UInt32(clamping: statistics.sentPerMinute)
        result.enqueued_per_minute = UInt32(clamping: statistics.enqueuedPerMinute)
        result.opened_ms = statistics.openedAt
        result.enqueued = UInt64(clamping: statistics.enqueued)
        result.attempts = UInt64(clamping: statistics.attempts)
        result.sent = UInt64(clamping: statistics.sent)
        result.sent_bytes = UInt64(clamping: statistics.sentBytes)
        result.retried = UInt64(clamping: statistics.retried)
        result.failed = UInt64(clamping: statistics.failed)
        result.discarded = UInt64(clamping: statistics.discarded)
        copy(statistics.failuresByKind, to: &result.failures)
        copy(statistics.latencies, to: &result.latencies)
        result.latency_sum_ms = UInt64(clamping: statistics.latencySum)
        result.latency_max_ms = UInt64(clamping: statistics.latencyMax)
        result.replaced = UInt64(clamping: statistics.replaced)
        result.file_bytes = UInt64(clamping: statistics.fileBytes)
        result.free_bytes = UInt64(clamping: statistics.freeBytes)
        result.retryable = UInt64(clamping: statistics.retryable)
        result.rejected = UInt64(clamping: statistics.rejected)
        result.offline = UInt64(clamping: statistics.offline)
        result.oldest_queued_ms = statistics.oldestQueuedAt
        Structs.write(result, to: out)
    }
}

private let minutesMark: UInt64 = 0x6d73_6771_6d69_6e73

@_cdecl("msgq_minutes") @implementation
public func msgq_minutes(_ queue: OpaquePointer!, _ out: UnsafeMutablePointer<OpaquePointer?>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        let minutes = try engine.minutes()
        let memory = try Block.make { block in
            block.reserve(ArrayHeader.self)?.initialize(to: ArrayHeader(mark: minutesMark, count: minutes.count))
            let target = block.reserve(msgq_minute.self, count: minutes.count)
            for (index, minute) in minutes.enumerated() { target?[index] = msgq_minute(minute) }
        }
        out.pointee = OpaquePointer(memory)
    }
}

extension msgq_minute {
    fileprivate init(_ minute: Minute) {
        self.init(
            struct_size: UInt32(MemoryLayout<msgq_minute>.stride), start_ms: minute.startedAt,
            enqueued: UInt64(clamping: minute.enqueued), sent: UInt64(clamping: minute.sent),
            failed_attempts: UInt64(clamping: minute.failedAttempts), failed: UInt64(clamping: minute.failed))
    }
}

@_cdecl("msgq_minutes_size") @implementation
public func msgq_minutes_size(_ page: OpaquePointer!) -> Int { ArrayHeader.at(page, minutesMark)?.pointee.count ?? 0 }

@_cdecl("msgq_minutes_at") @implementation
public func msgq_minutes_at(_ page: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_minute>! {
    ArrayHeader.element(page, minutesMark, index, msgq_minute.self)
}

@_cdecl("msgq_minutes_free") @implementation
public func msgq_minutes_free(_ page: OpaquePointer!) { ArrayHeader.release(page, minutesMark) }

/// Copies numbers into an array field of a struct.
private func copy<Field>(_ numbers: [Int64], to field: inout Field) {
    withUnsafeMutableBytes(of: &field) { bytes in
        for (index, number) in numbers.enumerated() where (index + 1) * MemoryLayout<UInt64>.size <= bytes.count {
            bytes.storeBytes(of: UInt64(clamping: number), toByteOffset: index * MemoryLayout<UInt64>.size, as: UInt64.self)
        }
    }
}

@_cdecl("msgq_stats_text") @implementation
public func msgq_stats_text(_ queue: OpaquePointer!, _ out: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>!) -> msgq_result {
    give(out) { () throws(QueueError) in try Metrics.prometheus(of: [try Handles.engine(queue)]) }
}

@_cdecl("msgq_stats_text_all") @implementation
public func msgq_stats_text_all(
    _ queues: UnsafePointer<OpaquePointer?>!, _ count: Int, _ out: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>!
) -> msgq_result {
    give(out) { () throws(QueueError) in
        try check(count: count, most: mostQueues)
        var engines: [Engine] = []
        if count > 0 {
            let queues = try require(queues, "queues")
            for index in 0..<count { engines.append(try Handles.engine(queues[index])) }
        }
        return try Metrics.prometheus(of: engines)
    }
}

/// The most queues whose statistics one text may have.
private let mostQueues = 1000

/// Returns a text that the caller frees.
func give(
    _ out: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ text: () throws(QueueError) -> String
) -> msgq_result {
    status { () throws(QueueError) in
        let out = try require(out, "out")
        guard let copy = strdup(try text()) else { throw QueueError(.storage, "failed to allocate a text") }
        out.pointee = copy
    }
}

@_cdecl("msgq_text_free") @implementation
public func msgq_text_free(_ text: UnsafeMutablePointer<CChar>!) { free(text) }

// MARK: Pauses

@_cdecl("msgq_pause") @implementation
public func msgq_pause(_ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in try engine.pause(try nameIfGiven(conversation, "conversation")) }
}

@_cdecl("msgq_resume") @implementation
public func msgq_resume(_ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in try engine.resume(try nameIfGiven(conversation, "conversation")) }
}

@_cdecl("msgq_withdraw_prompt") @implementation
public func msgq_withdraw_prompt(_ queue: OpaquePointer!) -> msgq_result {
    status { () throws(QueueError) in try Handles.engine(queue).withdrawPrompt() }
}
