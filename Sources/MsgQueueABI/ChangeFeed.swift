import CMsgQueue
import Glibc
import MsgQueue

private let changesMark: UInt64 = 0x6d73_6771_6368_6e67

/// The start of a page of changes. The array of changes follows.
private struct ChangesHeader {
    var array: ArrayHeader
    var next: UnsafePointer<CChar>?
    var oldest: UnsafePointer<CChar>?

    static func at(_ pointer: OpaquePointer?) -> UnsafeMutablePointer<ChangesHeader>? {
        ArrayHeader.at(pointer, changesMark) == nil ? nil : pointer.map { UnsafeMutablePointer<ChangesHeader>($0) }
    }
}

@_cdecl("msgq_changes") @implementation
public func msgq_changes(
    _ queue: OpaquePointer!, _ after: UnsafePointer<CChar>!, _ limit: UInt32, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        let token = try after.map { pointer throws(QueueError) in try ChangeToken(text: try text(pointer, "after")) }
        let page = try engine.changes(after: token, limit: limit == 0 ? 50 : Int(limit))
        let memory = try Block.make { block in
            let header = block.reserve(ChangesHeader.self)
            let target = block.reserve(msgq_change.self, count: page.changes.count)
            let (next, oldest) = (block.string(page.next.text), block.string(page.oldest.text))
            header?.initialize(
                to: ChangesHeader(array: ArrayHeader(mark: changesMark, count: page.changes.count), next: next, oldest: oldest))
            for (index, change) in page.changes.enumerated() {
                let (id, conversation) = (block.string(change.id), block.string(change.conversation))
                let token = block.string(change.token.text)
                target?[index] = msgq_change(
                    struct_size: UInt32(MemoryLayout<msgq_change>.stride),
                    kind: msgq_change_kind(UInt32(bitPattern: change.kind.rawValue)),
                    status: msgq_status(UInt32(bitPattern: change.status.rawValue)),
                    failure_kind: msgq_failure_kind(UInt32(bitPattern: change.failure.rawValue)), code: change.code, at_ms: change.at,
                    id: id, conversation: conversation, token: token)
            }
        }
        out.pointee = OpaquePointer(memory)
    }
}

@_cdecl("msgq_changes_size") @implementation
public func msgq_changes_size(_ page: OpaquePointer!) -> Int { ChangesHeader.at(page)?.pointee.array.count ?? 0 }

@_cdecl("msgq_changes_at") @implementation
public func msgq_changes_at(_ page: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_change>! {
    guard let header = ChangesHeader.at(page), index >= 0, index < header.pointee.array.count else { return nil }
    return (UnsafeRawPointer(header) + MemoryLayout<ChangesHeader>.stride).assumingMemoryBound(to: msgq_change.self) + index
}

@_cdecl("msgq_changes_next") @implementation
public func msgq_changes_next(_ page: OpaquePointer!) -> UnsafePointer<CChar>! { ChangesHeader.at(page)?.pointee.next }

@_cdecl("msgq_changes_oldest") @implementation
public func msgq_changes_oldest(_ page: OpaquePointer!) -> UnsafePointer<CChar>! { ChangesHeader.at(page)?.pointee.oldest }

@_cdecl("msgq_changes_free") @implementation
public func msgq_changes_free(_ page: OpaquePointer!) { ArrayHeader.release(page, changesMark) }
