@testable import MsgQueue

extension Message {
    /// The body as text; invalid UTF-8 becomes replacement characters.
    var text: String { String(decoding: body ?? [], as: UTF8.self) }
}

extension Delivery {
    var text: String { String(decoding: body, as: UTF8.self) }
}
