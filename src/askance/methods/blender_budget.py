"""What each method of Blender may read, and what its last call may."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from askance.core.events import UPPER_BOUND
from askance.core.ports import Run
from askance.core.types import Question
from askance.methods.airrag.prompts import candidates_prompt
from askance.methods.budget import Account, Allowance

if TYPE_CHECKING:
    from askance.methods.blender import Blender

_CANDIDATE_TOKENS = 32


@dataclass(slots=True)
class Shares:
    """One question's budget.

    Attributes:
        members: what each method may read.
        accounts: one of all of them, or one of each and one of the last call.
        kept: of a common account, for the last call.
    """

    l_max: int | None
    members: dict[str, Allowance]
    accounts: tuple[Account, ...]
    kept: int = 0

    @classmethod
    def of(cls, blender: "Blender", question: Question, run: Run) -> "Shares":
        """Each method has L_max, and so has the last call; or all together, the methods in equal parts."""
        names, most = blender.methods.names, blender.l_max
        if most is None or not blender.strict_budget:
            accounts = tuple(Account(most) for _ in (*names, "the last call"))
            members = {name: account.share(1) for name, account in zip(names, accounts, strict=False)}
            return cls(most, members, accounts)
        account = Account(most)
        template = run.model.count(candidates_prompt(run.model, question, (), words=blender.prompts))
        kept = min(template + _CANDIDATE_TOKENS * len(names), most // 2)
        account.set_aside += kept
        members = {name: account.share(len(names) - number) for number, name in enumerate(names)}
        return cls(most, members, (account,), kept)

    def last(self) -> Allowance:
        """For the last call, with all that is left over."""
        account = self.accounts[-1]
        account.set_aside -= self.kept
        self.kept = 0
        return account.share(1)

    @property
    def told(self) -> str:
        """In words."""
        num_calls = sum(account.num_calls for account in self.accounts)
        read = sum(account.num_input for account in self.accounts)
        return f"{num_calls} calls read {read:,} tokens"

    @property
    def numbers(self) -> dict[str, float]:
        """What was spent in all, and what each method has read."""
        of_all = [account.numbers for account in self.accounts]
        spent = {name: sum(each[name] for each in of_all) for name in ("input tokens", "tokens", "calls")}
        if any(UPPER_BOUND in each for each in of_all):
            spent[UPPER_BOUND] = 1.0
        spent |= {f"input tokens of {name}": float(each.num_input) for name, each in self.members.items()}
        return spent if self.l_max is None else {**spent, "l_max": float(self.l_max)}
