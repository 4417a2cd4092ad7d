import CMsgQueue
import MsgQueue

// Changes of stored messages.

@_cdecl("msgq_edit") @implementation
public func msgq_edit(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ body: UnsafeRawPointer!, _ body_size: Int
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in try engine.edit(id, MessageChange(body: try bytes(body, body_size))) }
}

@_cdecl("msgq_edit_message") @implementation
public func msgq_edit_message(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ draft: UnsafePointer<msgq_draft>!, _ if_edited_ms: Int64
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in
        try engine.edit(id, try readChange(try require(draft, "draft"), takesTime: false), ifEdited: if_edited_ms)
    }
}

@_cdecl("msgq_update") @implementation
public func msgq_update(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ draft: UnsafePointer<msgq_draft>!
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in
        try engine.update(id, try readChange(try require(draft, "draft"), takesTime: true))
    }
}

/// Reads a draft that changes a stored message. The fields that cannot be changed must have their defaults. `takesTime`: `time_ms` can be.
private func readChange(_ pointer: UnsafePointer<msgq_draft>, takesTime: Bool) throws(QueueError) -> MessageChange {
    let given = try readFields(pointer)
    let isSet = [
        ("not_before_ms", given.not_before_ms != 0), ("expires_at_ms", given.expires_at_ms != 0),
        ("unmetered_only", given.unmetered_only), ("replace_key", (given.replace_key?.pointee ?? 0) != 0),
        ("priority", given.priority != 0), ("time_ms", given.time_ms != 0 && !takesTime),
        ("delay_ms", given.delay_ms != 0), ("expiry_ms", given.expiry_ms != 0),
    ]
    if let field = isSet.first(where: \.1)?.0 { throw QueueError(.invalid, "\(field) cannot be changed: it must be 0 in this draft") }
    return MessageChange(
        body: try bytes(given.body, given.body_size),
        metadata: given.metadata == nil && given.metadata_count == 0 ? nil : try metadata(of: given),
        time: given.time_ms, id: try nameIfGiven(given.id, "id"),
        conversation: try given.conversation.map { pointer throws(QueueError) in Name(try name(pointer, "conversation")) })
}
