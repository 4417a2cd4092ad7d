import CMsgQueue
import MsgQueue

@_cdecl("msgq_record_batch") @implementation
public func msgq_record_batch(
    _ queue: OpaquePointer!, _ drafts: UnsafePointer<msgq_draft>!, _ senders: UnsafePointer<UnsafePointer<CChar>?>!, _ count: Int,
    _ results: UnsafeMutablePointer<msgq_result>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        try check(count: count)
        guard count > 0 else { return }
        let drafts = try batch(drafts, count) { index, pointer throws(QueueError) in
            var draft = try read(pointer, isSent: false)
            draft.sender = try senders?[index].map { sender throws(QueueError) in try name(sender, "sender") }
            return draft
        }
        write(try HistoryCalls(engine).record(drafts).errors, to: results)
    }
}

@_cdecl("msgq_mark_batch") @implementation
public func msgq_mark_batch(
    _ queue: OpaquePointer!, _ ids: UnsafePointer<UnsafePointer<CChar>?>!, _ count: Int, _ status: msgq_status,
    _ results: UnsafeMutablePointer<msgq_result>!
) -> msgq_result {
    MsgQueueABI.status(queue) { engine throws(QueueError) in
        try check(count: count)
        let receipt: MessageStatus = try choice(status.rawValue, "status")
        var texts: [String] = []
        texts.reserveCapacity(count)
        for index in 0..<count {
            do throws(QueueError) { texts.append(try name(try require(try require(ids, "ids")[index], "id"), "id")) } catch {
                throw QueueError(error.code, "id \(index): \(error.detail)")
            }
        }
        write(try HistoryCalls(engine).mark(texts, as: receipt), to: results)
    }
}

@_cdecl("msgq_mark_up_to") @implementation
public func msgq_mark_up_to(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ status: msgq_status, _ count: UnsafeMutablePointer<UInt64>!
) -> msgq_result {
    MsgQueueABI.status(queue, id) { engine, id throws(QueueError) in
        let marked = try HistoryCalls(engine).mark(upTo: id, as: try choice(status.rawValue, "status"))
        if let count { count.pointee = UInt64(clamping: marked) }
    }
}

/// Writes the result of each part of a call that succeeded.
func write(_ errors: some Sequence<QueueError?>, to results: UnsafeMutablePointer<msgq_result>?) {
    guard let results else { return }
    for (index, error) in errors.enumerated() {
        results[index] = result(of: error)
    }
}

/// The result that stands for an error; nil: OK.
func result(of error: QueueError?) -> msgq_result { error.map { msgq_result(UInt32(bitPattern: $0.code.rawValue)) } ?? MSGQ_OK }
