"""A stock client's commit, as rows, turned back into what its transaction meant: the changes of a proposal."""

from commitlog.gateway.translation.base import Base as Base
from commitlog.gateway.translation.translating import Translated as Translated
from commitlog.gateway.translation.translating import translate as translate
