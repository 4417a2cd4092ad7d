import CMsgQueue
import Glibc
import MsgQueue

private let groupsMark: UInt64 = 0x6d73_6771_6772_6f75

@_cdecl("msgq_failure_groups") @implementation
public func msgq_failure_groups(
    _ queue: OpaquePointer!, _ limit: UInt32, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        let groups = try engine.failureGroups(limit: limit == 0 ? 50 : Int(limit))
        let memory = try Block.make { block in
            block.reserve(ArrayHeader.self)?.initialize(to: ArrayHeader(mark: groupsMark, count: groups.count))
            let target = block.reserve(msgq_failure_group.self, count: groups.count)
            for (index, group) in groups.enumerated() {
                let text = block.string(group.text)
                target?[index] = msgq_failure_group(
                    struct_size: UInt32(MemoryLayout<msgq_failure_group>.stride),
                    kind: msgq_failure_kind(UInt32(bitPattern: group.kind.rawValue)), code: group.code,
                    count: UInt64(clamping: group.count), first_ms: group.firstAt, last_ms: group.lastAt, text: text)
            }
        }
        out.pointee = OpaquePointer(memory)
    }
}

@_cdecl("msgq_failure_groups_size") @implementation
public func msgq_failure_groups_size(_ page: OpaquePointer!) -> Int { ArrayHeader.at(page, groupsMark)?.pointee.count ?? 0 }

@_cdecl("msgq_failure_groups_at") @implementation
public func msgq_failure_groups_at(_ page: OpaquePointer!, _ index: Int) -> UnsafePointer<msgq_failure_group>! {
    ArrayHeader.element(page, groupsMark, index, msgq_failure_group.self)
}

@_cdecl("msgq_failure_groups_free") @implementation
public func msgq_failure_groups_free(_ page: OpaquePointer!) { ArrayHeader.release(page, groupsMark) }

@_cdecl("msgq_count_waiting") @implementation
public func msgq_count_waiting(_ queue: OpaquePointer!, _ out: UnsafeMutablePointer<msgq_waiting>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        try Structs.check(out, msgq_waiting.self, "msgq_waiting")
        let waiting = try engine.waiting()
        func number(_ value: Int64) -> UInt64 { UInt64(clamping: value) }
        Structs.write(
            msgq_waiting(
                struct_size: UInt32(MemoryLayout<msgq_waiting>.stride), queued: number(waiting.queued), paused: number(waiting.paused),
                scheduled: number(waiting.scheduled), retrying: number(waiting.retrying), next_scheduled_ms: waiting.nextScheduledAt,
                next_retry_ms: waiting.nextRetryAt), to: out)
    }
}
