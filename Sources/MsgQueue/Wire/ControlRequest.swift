/// A request of a client: one line of JSON.
package struct ControlRequest: Sendable {
    /// An integer or a string, which the answer repeats; null: the request has no valid one.
    package let id: JSONValue
    package let call: Result<ControlCall, QueueError>

    /// The maximal length of an id that is a string, in bytes.
    private static let idCeiling = 255

    package init(line: [UInt8]) {
        do throws(JSONParser.Failure) {
            self.init(try JSONParser.parse(line))
        } catch {
            self.init(.null, .failure(QueueError(.invalid, "the line is not JSON: \(error.text), at byte \(error.offset)")))
        }
    }

    private init(_ id: JSONValue, _ call: Result<ControlCall, QueueError>) { (self.id, self.call) = (id, call) }

    package init(_ value: JSONValue) {
        guard let members = value.members else {
            self.init(.null, .failure(QueueError(.invalid, "a request must be an object")))
            return
        }
        guard let id = Self.id(value["id"]) else {
            self.init(.null, .failure(QueueError(.invalid, "id must be an integer or a string of at most \(Self.idCeiling) bytes")))
            return
        }
        do throws(QueueError) { self.init(id, .success(try Self.decode(value, members))) } catch { self.init(id, .failure(error)) }
    }

    private static func id(_ value: JSONValue?) -> JSONValue? {
        switch value {
        case .integer, .string: (value?.string?.utf8.count ?? 0) <= idCeiling ? value : nil
        default: nil
        }
    }

    private static func decode(_ request: JSONValue, _ members: [JSONValue.Member]) throws(QueueError) -> ControlCall {
        guard let name = request["call"]?.string else { throw QueueError(.invalid, "call must be a string") }
        guard let rule = ControlRule.all.first(where: { Name($0.call) == Name(name) }) else {
            throw QueueError(.invalid, "unknown call: \(shown(name))")
        }
        try rule.check(members)
        return try call(rule.call, Given(request: request))
    }

    /// Returns the beginning of a text for an error.
    static func shown(_ text: String) -> String {
        var shown = String.UnicodeScalarView()
        shown.append(contentsOf: text.unicodeScalars.prefix(40))
        return String(shown)
    }

    /// The fields of a request that the rule accepted.
    private struct Given {
        let request: JSONValue

        func text(_ name: String) -> String? { request[name]?.string }
        func integer(_ name: String) -> Int64? { request[name]?.integer }
        func flag(_ name: String) -> Bool { request[name]?.bool ?? false }
        var message: String { text("message") ?? "" }
        var conversation: String? { text("conversation") }
        /// `.none`: any.
        var failureKind: FailureKind { text("kind").flatMap(WireWords.failure) ?? .none }
        /// nil: any.
        var failureCode: Int32? { integer("code").map { Int32(clamping: $0) } }
        var limit: Int { Int(clamping: integer("limit") ?? 50) }
        var receipt: MessageStatus { text("status").flatMap(WireWords.status) ?? .sent }

        func body() throws(QueueError) -> [UInt8] {
            switch (text("body"), text("body_base64")) {
            case (let text?, nil): return Array(text.utf8)
            case (nil, let text?):
                guard let bytes = Base64.decode(text) else { throw QueueError(.invalid, "body_base64 is not base64") }
                return bytes
            case (nil, nil): throw QueueError(.invalid, "body or body_base64 is missing")
            case (_?, _?): throw QueueError(.invalid, "body and body_base64 must not both be given")
            }
        }
    }

    private static func call(_ name: String, _ fields: Given) throws(QueueError) -> ControlCall {
        switch name {
        case "list": return .list(filter(fields))
        case "get": return .get(fields.message)
        case "explain": return .explain(fields.message)
        case "attempts": return .attempts(fields.message)
        case "counts": return .counts(conversation: fields.conversation)
        case "conversations": return try conversations(fields)
        case "conversation": return .conversation(fields.conversation ?? "")
        case "set_title": return .setTitle(fields.text("title") ?? "", conversation: fields.conversation ?? "")
        case "failures": return .failures(limit: fields.limit)
        case "waiting": return .waiting
        case "changes": return .changes(after: fields.text("after"), limit: fields.limit)
        case "stats": return .stats
        case "stats_text": return .statsText
        case "minutes": return .minutes
        case "state": return .state
        case "banner": return .banner(conversation: fields.conversation)
        case "drain":
            return .drain(
                conversation: fields.conversation, batch: Int(clamping: fields.integer("batch") ?? 0),
                timeout: fields.integer("timeout_ms"), includesFailed: fields.flag("include_failed"))
        case "retry": return .retry(fields.message)
        case "retry_all": return .retryAll(failed(fields))
        case "send_now": return .sendNow(fields.message)
        case "edit": return .edit(fields.message, try change(fields), ifEdited: fields.integer("if_edited_ms") ?? ChangeRule.anyEdit)
        case "update": return .update(fields.message, try change(fields))
        case "delete": return .delete(fields.message)
        case "clear": return .clear(conversation: fields.conversation)
        case "clear_failed": return .clearFailed(failed(fields))
        case "delete_conversation": return .deleteConversation(fields.conversation ?? "")
        case "pause": return .pause(conversation: fields.conversation)
        case "resume": return .resume(conversation: fields.conversation)
        case "backup": return .backup(path: fields.text("path") ?? "")
        case "check": return .check
        case "enqueue": return .enqueue(try draft(fields))
        case "enqueue_batch": return .enqueueBatch(try drafts(fields.request["drafts"]?.array ?? []))
        case "record": return .record(try draft(fields))
        case "record_batch": return .recordBatch(try drafts(fields.request["drafts"]?.array ?? []))
        case "mark": return .mark(fields.message, as: fields.receipt)
        case "mark_batch":
            return .markBatch(fields.request["messages"]?.array?.compactMap(\.string) ?? [], as: fields.receipt)
        case "mark_up_to": return .markUpTo(fields.message, as: fields.receipt)
        case "set_lifecycle": return .setLifecycle(isInBackground: fields.text("lifecycle") == "background")
        case "withdraw_prompt": return .withdrawPrompt
        case "request_collect": return .requestCollect
        case "subscribe":
            let names = fields.request["events"]?.array?.compactMap { $0.string.flatMap(EventName.init(rawValue:)) }
            return .subscribe(Set(names ?? EventName.allCases), interval: fields.integer("interval_ms") ?? 0)
        case "unsubscribe": return .unsubscribe
        case "ping": return .ping
        default: throw QueueError(.internal, "the call \(name) is not decoded")
        }
    }

    private static func filter(_ fields: Given) -> Filter {
        let statuses = fields.request["statuses"]?.array?.compactMap { $0.string.flatMap(WireWords.status) }
        var filter = Filter(
            conversation: fields.conversation, statuses: statuses.map { StatusSet($0.map { StatusSet($0) }) } ?? .unsent,
            after: fields.integer("after") ?? 0, limit: fields.limit, newestFirst: fields.flag("newest_first"),
            withoutBodies: !fields.flag("bodies"), order: fields.text("order") == "time" ? .time : .sequence,
            afterTime: fields.integer("after_time_ms") ?? 0, withReasons: fields.flag("reasons"))
        (filter.failureKind, filter.failureCode) = (fields.failureKind, fields.failureCode)
        filter.waitingFor = fields.text("waiting_for").flatMap(WireWords.reason)
        return filter
    }

    private static func failed(_ fields: Given) -> Filter { .failed(fields.conversation, fields.failureKind, fields.failureCode) }

    private static func conversations(_ fields: Given) throws(QueueError) -> ControlCall {
        let (before, time) = (fields.integer("before") ?? 0, fields.integer("before_time_ms") ?? 0)
        guard fields.text("order") == "time" else {
            guard time == 0 else { throw QueueError(.invalid, "conversations: before_time_ms needs the order time") }
            return .conversations(before: before, limit: fields.limit)
        }
        return .conversationsByTime(before: time == 0 && before == 0 ? nil : TimePlace(time, before), limit: fields.limit)
    }

    private static func change(_ fields: Given) throws(QueueError) -> ControlChange {
        ControlChange(body: try fields.body(), metadata: fields.request["metadata"]?.members, time: fields.integer("time_ms") ?? 0)
    }

    private static func drafts(_ given: [JSONValue]) throws(QueueError) -> [ControlDraft] {
        var drafts: [ControlDraft] = []
        for (index, value) in given.enumerated() {
            do throws(QueueError) { drafts.append(try draft(Given(request: value))) } catch {
                throw error.ofDraft(index, of: given.count)
            }
        }
        return drafts
    }

    private static func draft(_ fields: Given) throws(QueueError) -> ControlDraft {
        for (time, duration) in [("not_before_ms", "delay_ms"), ("expires_at_ms", "expiry_ms")] {
            guard fields.integer(time) == nil || fields.integer(duration) == nil else {
                throw QueueError(.invalid, "\(time) and \(duration) must not both be given")
            }
        }
        return ControlDraft(
            id: fields.text("message"), conversation: fields.conversation ?? "", body: try fields.body(),
            metadata: fields.request["metadata"]?.members ?? [], notBefore: fields.integer("not_before_ms") ?? 0,
            delay: fields.integer("delay_ms") ?? 0, expiresAt: fields.integer("expires_at_ms") ?? 0,
            expiry: fields.integer("expiry_ms") ?? 0, unmeteredOnly: fields.flag("unmetered_only"),
            replaceKey: fields.text("replace_key"), priority: Int32(clamping: fields.integer("priority") ?? 0),
            time: fields.integer("time_ms") ?? 0, sender: fields.text("sender"))
    }
}

/// The lines that the server writes.
package enum ControlLine {
    /// The version of the protocol. It changes when a client that knows the earlier one could misunderstand the server.
    package static let version: Int64 = 1

    package static func greeting(store: String, process: Int32) -> [UInt8] {
        JSONWriter.line([
            "msgqueue": .string(LibraryVersion.text), "protocol": .integer(version), "store": .string(store), "pid": JSONValue(process),
        ])
    }

    package static func result(_ value: JSONValue, of id: JSONValue) -> [UInt8] { JSONWriter.line(["id": id, "result": value]) }

    package static func error(_ error: QueueError, of id: JSONValue) -> [UInt8] { JSONWriter.line(["id": id, "error": JSONValue(error)]) }

    package static func answer(_ answer: Result<JSONValue, QueueError>, of id: JSONValue) -> [UInt8] {
        switch answer {
        case .success(let value): result(value, of: id)
        case .failure(let error): self.error(error, of: id)
        }
    }

    /// Tells a client that it is too slow: no event follows, and the connection ends.
    package static let unsubscribed = JSONWriter.line(["event": "unsubscribed", "text": "events were not read in time"])
}
