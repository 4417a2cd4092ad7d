/// The fuzzed function of the control socket's input: a line of a client.
///
/// No line may end the process. What is read, written and read again is the same value, and an answer is one line of JSON.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    let line = [UInt8](UnsafeBufferPointer(start: data, count: size))
    if let value = try? JSONParser.parse(line) {
        let written = JSONWriter.line(value)
        guard written.last == UInt8(ascii: "\n"), let again = try? JSONParser.parse([UInt8](written.dropLast())), again == value else {
            fatalError("a value changes when it is written")
        }
    }
    let request = ControlRequest(line: line)
    let answer =
        switch request.call {
        case .success: ControlLine.result([:], of: request.id)
        case .failure(let error): ControlLine.error(error, of: request.id)
        }
    guard answer.filter({ $0 == UInt8(ascii: "\n") }).count == 1, (try? JSONParser.parse([UInt8](answer.dropLast()))) != nil else {
        fatalError("an answer is not one line of JSON")
    }
    return 0
}
