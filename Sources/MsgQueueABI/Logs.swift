import CMsgQueue
import Glibc
import MsgQueue

@_cdecl("msgq_set_log") @implementation
public func msgq_set_log(
    _ function: msgq_log_fn!, _ context: UnsafeMutableRawPointer!, _ release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> msgq_result {
    let host = HostContext(pointer: context, release: release)
    guard let function else {
        Log.setSink(nil)
        // No function is set that would use the context.
        host.releasing?()
        return MSGQ_OK
    }
    let sink: LogFunction = { level, text in
        text.withCString { function(host.pointer, msgq_log_level(UInt32(bitPattern: level.rawValue)), $0) }
    }
    Log.setSink(Registration(sink, release: host.releasing))
    return MSGQ_OK
}

@_cdecl("msgq_set_log_level") @implementation
public func msgq_set_log_level(_ level: msgq_log_level) -> msgq_result {
    status { () throws(QueueError) in Log.setLevel(try choice(level.rawValue, "level")) }
}

@_cdecl("msgq_log_next") @implementation
public func msgq_log_next(_ level: UnsafeMutablePointer<msgq_log_level>!, _ out: UnsafeMutablePointer<CChar>!, _ size: Int) -> Int {
    // In C the size has no sign.
    let size = Int(clamping: UInt(bitPattern: size))
    // Without room for a character the line stays in the buffer; the log still notes that the host reads it.
    guard let out, size > 0 else {
        _ = Log.next(bytes: 0)
        return 0
    }
    guard let line = Log.next(bytes: size - 1) else {
        out.pointee = 0
        return 0
    }
    level?.pointee = msgq_log_level(UInt32(bitPattern: line.level.rawValue))
    let count = line.text.utf8.count
    line.text.withCString { _ = memcpy(out, $0, count + 1) }
    return count
}

@_cdecl("msgq_log_fd") @implementation
public func msgq_log_fd() -> Int32 { Log.descriptor() }
