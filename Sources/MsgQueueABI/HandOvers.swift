import CMsgQueue
import Glibc
import MsgQueue

private let handOverMark: UInt64 = 0x6d73_6771_6f76_6572

/// The start of a list of what was handed over. The array of entries follows.
private struct HandOverHeader {
    var array: ArrayHeader
    var token: UInt64
    var source: UnsafePointer<CChar>?

    static func at(_ pointer: OpaquePointer?) -> UnsafeMutablePointer<HandOverHeader>? {
        ArrayHeader.at(pointer, handOverMark) == nil ? nil : pointer.map { UnsafeMutablePointer<HandOverHeader>($0) }
    }
}

@_cdecl("msgq_handed_over") @implementation
public func msgq_handed_over(
    _ queue: OpaquePointer!, _ source: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        let list = try HandOverCalls(engine).handedOver(by: try name(try require(source, "source"), "source"))
        let memory = try Block.make { block in
            let header = block.reserve(HandOverHeader.self)
            let target = block.reserve(msgq_handed.self, count: list.entries.count)
            let source = block.string(list.source)
            header?.initialize(
                to: HandOverHeader(
                    array: ArrayHeader(mark: handOverMark, count: list.entries.count), token: list.token, source: source))
            for (index, entry) in list.entries.enumerated() {
                let (id, text) = (block.string(entry.id), block.string(entry.refusal?.detail ?? ""))
                target?[index] = msgq_handed(
                    struct_size: UInt32(MemoryLayout<msgq_handed>.stride), result: result(of: entry.refusal), id: id,
                    body_size: UInt64(clamping: entry.bodySize), at_ms: entry.at, text: text)
            }
        }
        out.pointee = OpaquePointer(memory)
    }
}

@_cdecl("msgq_handed_over_size") @implementation
public func msgq_handed_over_size(_ list: OpaquePointer!) -> Int { HandOverHeader.at(list)?.pointee.array.count ?? 0 }

@_cdecl("msgq_handed_over_at") @implementation
public func msgq_handed_over_at(_ list: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_handed>! {
    guard let header = HandOverHeader.at(list), index >= 0, index < header.pointee.array.count else { return nil }
    return (UnsafeRawPointer(header) + MemoryLayout<HandOverHeader>.stride).assumingMemoryBound(to: msgq_handed.self) + index
}

@_cdecl("msgq_handed_over_free") @implementation
public func msgq_handed_over_free(_ list: OpaquePointer!) { ArrayHeader.release(list, handOverMark) }

@_cdecl("msgq_take_over") @implementation
public func msgq_take_over(
    _ queue: OpaquePointer!, _ list: OpaquePointer!, _ drafts: UnsafePointer<msgq_draft>!, _ count: Int,
    _ results: UnsafeMutablePointer<msgq_result>!
) -> msgq_result {
    status { () throws(QueueError) in
        let calls = HandOverCalls(try Handles.engine(queue))
        try calls.checkOpen()
        let look = try look(list)
        try check(count: count)
        guard count > 0 else { return }
        let place = try places(drafts)
        let errors = try calls.takeOver(look, count: count) { index throws(QueueError) in
            do throws(QueueError) { return try readHanded(try place(index)) } catch { throw error.ofDraft(index, of: count) }
        }
        write(errors, to: results)
    }
}

@_cdecl("msgq_hand_over_done") @implementation
public func msgq_hand_over_done(_ queue: OpaquePointer!, _ list: OpaquePointer!) -> msgq_result {
    status { () throws(QueueError) in
        let calls = HandOverCalls(try Handles.engine(queue))
        try calls.checkOpen()
        try calls.end(try look(list))
    }
}

@_cdecl("msgq_hand_over_forget") @implementation
public func msgq_hand_over_forget(
    _ queue: OpaquePointer!, _ source: UnsafePointer<CChar>!, _ id: UnsafePointer<CChar>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let source = try name(try require(source, "source"), "source")
        try HandOverCalls(engine).forget(source, id: try nameIfGiven(id, "id"))
    }
}

@_cdecl("msgq_request_collect") @implementation
public func msgq_request_collect(_ queue: OpaquePointer!) -> msgq_result {
    status { () throws(QueueError) in try HandOverCalls(try Handles.engine(queue)).requestCollect() }
}

/// Reads what identifies a list; its entries are not needed.
private func look(_ list: OpaquePointer?) throws(QueueError) -> HandOver {
    guard let header = HandOverHeader.at(list), let source = header.pointee.source else {
        throw QueueError(.invalid, "the list must be one that msgq_handed_over returned")
    }
    return HandOver(source: try text(source, "source"), token: header.pointee.token, entries: [])
}

/// The largest part of an invalid id that is read.
private let longestID = 64 << 10

/// Reads a draft. What belongs to the draft alone, such as a text that is not UTF-8, is its refusal and no error of the call.
private func readHanded(_ pointer: UnsafePointer<msgq_draft>) throws(QueueError) -> HandedDraft {
    let given = try readFields(pointer)
    let id = try require(given.id, "id")
    var handed = HandedDraft(
        BorrowedDraft(
            id: nil, conversation: Name(""), body: try bytes(given.body, given.body_size), metadata: [], notBefore: given.not_before_ms,
            expiresAt: given.expires_at_ms, unmeteredOnly: given.unmetered_only, priority: given.priority, time: given.time_ms))
    (handed.draft.delay, handed.draft.expiry) = (given.delay_ms, given.expiry_ms)
    do throws(QueueError) {
        if let key = given.replace_key, key.pointee != 0 { handed.draft.replaceKey = try name(key, "replace_key") }
    } catch {
        handed.refusal = error
    }
    do throws(QueueError) {
        handed.draft.id = try name(id, "id")
        if let conversation = given.conversation { handed.draft.conversation = Name(try name(conversation, "conversation")) }
        handed.draft.metadata = try metadata(of: given)
    } catch {
        (handed.refusal, handed.isWhole) = (error, false)
        if handed.draft.id == nil {
            let bytes = UnsafeRawBufferPointer(start: id, count: strnlen(id, longestID))
            handed.draft.id = String(decoding: bytes, as: UTF8.self)
        }
    }
    return handed
}
