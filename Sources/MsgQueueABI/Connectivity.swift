import CMsgQueue
import MsgQueue

@_cdecl("msgq_set_connectivity") @implementation
public func msgq_set_connectivity(
    _ queue: OpaquePointer!, _ connectivity: msgq_connectivity, _ link: msgq_link, _ metered: Bool
) -> msgq_result {
    msgq_set_connectivity_reason(queue, connectivity, link, metered, nil)
}

@_cdecl("msgq_set_connectivity_reason") @implementation
public func msgq_set_connectivity_reason(
    _ queue: OpaquePointer!, _ connectivity: msgq_connectivity, _ link: msgq_link, _ metered: Bool, _ reason: UnsafePointer<CChar>!
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let reason = try reason.map { pointer throws(QueueError) in try text(pointer, "reason") }
        try engine.setNetwork(
            Network(
                connectivity: try choice(connectivity.rawValue, "connectivity"), link: try choice(link.rawValue, "link"), metered: metered,
                offlineReason: reason ?? ""))
    }
}

@_cdecl("msgq_monitor_start") @implementation
public func msgq_monitor_start(_ queue: OpaquePointer!) -> msgq_result {
    status { () throws(QueueError) in try Handles.engine(queue).startMonitor() }
}

@_cdecl("msgq_monitor_stop") @implementation
public func msgq_monitor_stop(_ queue: OpaquePointer!) -> msgq_result {
    status { () throws(QueueError) in try Handles.engine(queue).stopMonitor() }
}

@_cdecl("msgq_set_lifecycle") @implementation
public func msgq_set_lifecycle(_ queue: OpaquePointer!, _ lifecycle: msgq_lifecycle) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        guard lifecycle == MSGQ_LIFECYCLE_FOREGROUND || lifecycle == MSGQ_LIFECYCLE_BACKGROUND else {
            throw QueueError(.invalid, "invalid lifecycle: \(shown(lifecycle.rawValue))")
        }
        try engine.setLifecycle(isInBackground: lifecycle == MSGQ_LIFECYCLE_BACKGROUND)
    }
}
