import java.util.Arrays;
import org.hyperledger.fabric.client.Contract;
import org.hyperledger.fabric.client.GatewayException;
import org.hyperledger.fabric.client.Transaction;

/**
 * The tour of tests/caliper/tour-session.js through what a chaincode can ask of its peer, in the Java client: the
 * contract tour under AND(Org1MSP.peer, Org2MSP.peer), so that two processes must come to the same result, and kv.
 */
public final class TourSession {
    private final Session session;
    private final Session.Connection one;
    private final Contract contract;

    private TourSession(Session session, Session.Connection one) {
        this.session = session;
        this.one = one;
        contract = one.network().getContract("tour");
    }

    public static void main(String[] args) throws Exception {
        Session session = new Session(args);
        try (Session.Connection one = session.open("Org1MSP")) {
            TourSession us = new TourSession(session, one);
            us.states();
            us.pages();
            us.compositeKeys();
            us.transientData();
            us.event();
            us.creators();
            us.otherChaincode();
        }
    }

    private String ask(String... call) throws GatewayException {
        return Session.text(contract.evaluateTransaction(call[0], Arrays.copyOfRange(call, 1, call.length)));
    }

    private void submit(String... call) throws Exception {
        contract.submitTransaction(call[0], Arrays.copyOfRange(call, 1, call.length));
    }

    private void states() throws Exception {
        for (String key : new String[] {"a", "b", "c", "d", "e"}) {
            submit("put", key, key.toUpperCase());
        }
        session.say("get", ask("get", "b"));
        submit("del", "b");
        session.say("deleted", ask("get", "b"));
        session.say("range", ask("range", "a", "d"));
        session.say("open range", ask("range", "", ""));
        submit("fill", "250");
        session.say("long range", ask("sum"));
    }

    private void pages() throws Exception {
        session.say("first page", ask("page", "a", "f", "2", ""));
        session.say("second page", ask("page", "a", "f", "2", "d"));
        session.say("page of all", ask("page", "a", "f", "10", ""));
    }

    private void compositeKeys() throws Exception {
        submit("mark", "red", "x");
        submit("mark", "blue", "y");
        submit("mark", "red", "z");
        session.say("composite keys", ask("marked", "red"));
        session.say("composite keys, paged", ask("markedPage", "red", "1"));
    }

    private void transientData() throws Exception {
        Transaction kept = contract.newProposal("keepSecret").addArguments("s").putTransient("secret", "whisper").build().endorse();
        session.say("transient", Session.text(kept.getResult()));
        session.say("not in the transaction", !Session.text(kept.getBytes()).contains("whisper"));
        session.say("kept", kept.submitAsync().getStatus().getCode().getNumber());
        session.say("its hash", ask("checkSecret", "s", "whisper"));
    }

    private void event() throws Exception {
        long from = contract.newProposal("announce").addArguments("news", "hello").build().endorse()
                .submitAsync().getStatus().getBlockNumber();
        try (var events = one.network().newChaincodeEventsRequest("tour").startBlock(from).build().getEvents()) {
            var event = events.next();
            session.say("event", event.getEventName() + " " + Session.text(event.getPayload()));
        }
    }

    private void creators() throws Exception {
        session.say("creator", ask("who"));
        try (Session.Connection other = session.open("Org2MSP")) {
            session.say("another creator", Session.text(other.network().getContract("tour").evaluateTransaction("who")));
        }
    }

    private void otherChaincode() throws Exception {
        Contract kv = one.network().getContract("kv");
        submit("callPut", "kv", "k", "from afar");
        session.say("written by another chaincode", Session.text(kv.evaluateTransaction("get", "k")));
        session.say("not in its own state", ask("get", "k"));
        kv.submitTransaction("put", "k", "at home");
        session.say("read by another chaincode", ask("callGet", "kv", "k"));
        try {
            submit("callGet", "nothing", "k");
            session.say("unknown chaincode", "accepted");
        } catch (GatewayException error) {
            session.say("unknown chaincode", error.getClass().getSimpleName().replace("Exception", "Error"));
        }
    }
}
