import CMsgQueue
import Glibc
import MsgQueue

@_cdecl("msgq_wait") @implementation
public func msgq_wait(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ timeout_ms: Int64,
    _ out: UnsafeMutablePointer<UnsafeMutablePointer<msgq_message>?>!
) -> msgq_result {
    status(queue, id) { engine, id throws(QueueError) in
        let out = try require(out, "out")
        let ending = try OutcomeWait(engine).wait(id, timeout: timeout(timeout_ms))
        out.pointee = try block(ending.message)
        guard !ending.isTimeout else { throw QueueError(.timeout, "no outcome of message \(id) within the time; its message says more") }
    }
}

@_cdecl("msgq_wait_async") @implementation
public func msgq_wait_async(
    _ queue: OpaquePointer!, _ id: UnsafePointer<CChar>!, _ timeout_ms: Int64, _ done: msgq_waited_fn!,
    _ context: UnsafeMutableRawPointer!
) -> msgq_result {
    let host = HostContext(pointer: context, release: nil)
    return status(queue, id) { engine, id throws(QueueError) in
        try OutcomeWait(engine).wait(id, timeout: timeout(timeout_ms)) { ending in
            guard let done else { return }
            report(ending, done, host)
        }
    }
}

/// Calls a host's function with the end of a wait.
private func report(_ ending: Result<Waiter.Ending, QueueError>, _ done: msgq_waited_fn, _ host: HostContext) {
    var memory: UnsafeMutablePointer<msgq_message>?
    defer { free(memory) }
    let result = status { () throws(QueueError) in
        let ending = try ending.get()
        memory = try block(ending.message)
        guard !ending.isTimeout else { throw QueueError(.timeout, "no outcome of message \(ending.message.id) within the time") }
    }
    done(host.pointer, result, memory)
}

private func block(_ message: Message) throws(QueueError) -> UnsafeMutablePointer<msgq_message> {
    let memory = try Block.make { block in
        let target = block.reserve(msgq_message.self)
        block.message(message, at: target)
    }
    return memory.assumingMemoryBound(to: msgq_message.self)
}
