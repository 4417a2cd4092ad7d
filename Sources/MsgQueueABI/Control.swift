import CMsgQueue
import MsgQueue

@_cdecl("msgq_control_start") @implementation
public func msgq_control_start(_ queue: OpaquePointer!, _ path: UnsafePointer<CChar>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let path = try path.map { pointer throws(QueueError) in try text(pointer, "path") }
        try engine.startControl(path: path)
    }
}

@_cdecl("msgq_control_stop") @implementation
public func msgq_control_stop(_ queue: OpaquePointer!) -> msgq_result {
    status { () throws(QueueError) in try Handles.engine(queue).stopControl() }
}
